package vram

import (
	"errors"
	"slices"

	"github.com/pinion-gpu/pinion/device"
)

// leaving is a freed block that other streams than its own still use.
type leaving struct {
	b      *block
	events []device.Event // of those streams
}

// leave keeps b until the streams that use it besides its own are done with
// what they have queued.
func (p *Pool) leave(b *block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &leaving{b: b}
	for _, u := range b.users {
		e, err := p.event()
		if err == nil {
			if err = u.stream.Record(e); err != nil {
				p.events = append(p.events, e)
			}
		}
		switch {
		case err == nil:
			l.events = append(l.events, e)
		case errors.Is(err, device.ErrClosed): // which waited for its work
		default: // no event can tell, so this waits
			u.stream.Synchronize()
		}
	}
	b.kind = pending
	p.waiting.add(b.bytes)
	p.raiseActive()
	p.pending = append(p.pending, l)
	if len(l.events) == 0 || len(p.pending) >= p.settleAt { // often enough, however many there are
		p.settleWaiting()
		p.settleAt = 2*len(p.pending) + 16
	}
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
		if len(l.events) > 0 {
			return false
		}
		b := l.b
		b.users = nil
		p.waiting.add(-b.bytes)
		p.log(Event{Kind: EventReady, Purpose: b.purpose, Stream: b.owner.number(), Address: b.ptr, Bytes: b.bytes, Asked: b.requested, Name: b.name, Stack: b.stack})
		p.heapOf(b.bytes).give(b)
		return true
	})
	if len(p.pending) < before {
		p.settled++
	}
	return len(p.pending) < before
}
