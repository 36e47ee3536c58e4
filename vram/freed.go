package vram

import (
	"errors"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/vram/internal/space"
)

// Freed returns a channel that is closed when memory of the pool is freed next, or
// when the pool is closed. Whoever found no memory and can wait for that calls Freed,
// asks again, as some may have been freed before, and then waits. Nobody tells when the
// device's memory comes free that others have: see [OutOfMemoryError.OfPool].
func (p *Pool) Freed() <-chan struct{} {
	fresh := make(chan struct{})
	for {
		if old := p.freed.next.Load(); old != nil {
			return *old
		}
		if p.freed.next.CompareAndSwap(nil, &fresh) {
			if p.closed.Load() { // Close may have come before
				p.freed.tell()
			}
			return fresh
		}
	}
}

// frees tells those who wait that something was freed.
type frees struct {
	next atomic.Pointer[chan struct{}] // nil: nobody waits
}

func (f *frees) tell() {
	if f.next.Load() == nil {
		return
	}
	if c := f.next.Swap(nil); c != nil {
		close(*c)
	}
}

// OfPool reports whether it is the pool that lacks memory, for its budget or a limit:
// then only what is freed in this pool helps. Else the device has no more, and other
// pools and other programs may have some of it.
func (e *OutOfMemoryError) OfPool() bool {
	return errors.Is(e.cause, space.ErrBudget) || errors.Is(e.cause, ErrLimit)
}
