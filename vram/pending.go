package vram

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
)

// pendingBlock is a freed block that streams other than its own still use.
type pendingBlock struct {
	b       *block
	events  []device.Event // recorded on those streams
	waiting bool           // Free waits for streams on which no event could be recorded
}

// freeLater frees b when the other streams that use it have finished the work
// queued on them so far.
func (p *Pool) freeLater(b *block) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return ErrClosed // Close has freed it
	}
	f := &pendingBlock{b: b}
	var unmarked []*owner
	for _, u := range b.users {
		switch e, err := p.record(u.stream); {
		case err == nil:
			f.events = append(f.events, e)
		case errors.Is(err, device.ErrClosed): // Close waited for its work
		default:
			unmarked = append(unmarked, u)
		}
	}
	b.pending = true
	p.pendingBytes.Add(b.bytes)
	p.raiseActivePeak()
	p.pending = append(p.pending, f)
	f.waiting = true
	err := p.finish(unmarked)
	f.waiting = false
	if p.closed.Load() {
		return errors.Join(err, ErrClosed)
	}
	if len(f.events) == 0 || len(p.pending) >= p.settleAt { // the cost a free is constant, however many are pending
		p.settlePending()
		p.settleAt = 2*len(p.pending) + 16
	}
	return err
}

// finish waits for streams on which no event could be recorded, and returns the
// errors of their work. Pool.mu is held, but released meanwhile: the work may
// take long.
func (p *Pool) finish(users []*owner) error {
	if len(users) == 0 {
		return nil
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	var errs []error
	for _, u := range users {
		if err := u.stream.Synchronize(); err != nil && !errors.Is(err, device.ErrClosed) {
			errs = append(errs, fmt.Errorf("work on stream %d: %w", u.ID, err))
		}
	}
	return errors.Join(errs...)
}

// settlePending frees the pending blocks that no stream uses any more, and
// reports whether there were any. Pool.mu is held.
func (p *Pool) settlePending() bool {
	before := len(p.pending)
	p.pending = slices.DeleteFunc(p.pending, func(f *pendingBlock) bool {
		f.events = slices.DeleteFunc(f.events, func(e device.Event) bool {
			done, _ := e.Done()
			if done {
				p.events = append(p.events, e)
			}
			return done
		})
		if len(f.events) > 0 || f.waiting {
			return false
		}
		b := f.b
		b.users, b.pending = nil, false
		p.pendingBytes.Add(-b.bytes)
		p.log(Event{Kind: EventReady, Purpose: b.purpose, Stream: b.owner.number(), Address: b.ptr, Bytes: b.bytes, Asked: b.requested, Name: b.name, Stack: b.stack})
		p.give(b)
		return true
	})
	if len(p.pending) < before {
		p.settled++
	}
	return len(p.pending) < before
}
