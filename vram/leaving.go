package vram

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
)

// leaving is a freed block that other streams than its own still use.
type leaving struct {
	b      *block
	events []device.Event // of those streams
	waits  bool           // its Free waits for streams that no event tells of
}

// leave keeps b until the streams that use it besides its own are done with
// what they have queued.
func (p *Pool) leave(b *block) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return ErrClosed // Close has freed it
	}
	l := &leaving{b: b}
	var unmarked []*owner
	for _, u := range b.users {
		switch e, err := p.record(u.stream); {
		case err == nil:
			l.events = append(l.events, e)
		case errors.Is(err, device.ErrClosed): // which waited for its work
		default:
			unmarked = append(unmarked, u)
		}
	}
	b.kind = pending
	p.waiting.Add(b.bytes)
	p.raiseActive()
	p.pending = append(p.pending, l)
	l.waits = true
	err := p.finish(unmarked)
	l.waits = false
	if p.closed.Load() {
		return errors.Join(err, ErrClosed)
	}
	if len(l.events) == 0 || len(p.pending) >= p.settleAt { // often enough, however many there are
		p.settleWaiting()
		p.settleAt = 2*len(p.pending) + 16
	}
	return err
}

// finish waits for streams whose work no event tells of, and returns the errors
// of that work. Pool.mu is held, but not meanwhile: the work may take long.
func (p *Pool) finish(users []*owner) error {
	if len(users) == 0 {
		return nil
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	var errs []error
	for _, u := range users {
		if err := u.stream.Synchronize(); err != nil && !errors.Is(err, device.ErrClosed) {
			errs = append(errs, fmt.Errorf("work on stream %d: %w", u.id, err))
		}
	}
	return errors.Join(errs...)
}

// settleWaiting frees the blocks that nobody uses any more, and reports whether
// there were any. Pool.mu is held.
func (p *Pool) settleWaiting() bool {
	before := len(p.pending)
	p.pending = slices.DeleteFunc(p.pending, func(l *leaving) bool {
		l.events = slices.DeleteFunc(l.events, func(e device.Event) bool {
			done, _ := e.Done()
			if done {
				p.events = append(p.events, e)
			}
			return done
		})
		if len(l.events) > 0 || l.waits {
			return false
		}
		b := l.b
		b.users = nil
		p.waiting.Add(-b.bytes)
		p.log(Event{Kind: EventReady, Purpose: b.purpose, Stream: b.owner.number(), Address: b.ptr, Bytes: b.bytes, Asked: b.requested, Name: b.name, Stack: b.stack})
		p.heapOf(b.bytes).give(b)
		return true
	})
	if len(p.pending) < before {
		p.settled++
	}
	return len(p.pending) < before
}
