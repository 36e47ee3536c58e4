package pinned

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/live"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Close waits for the work that pending buffers are waiting for and gives all
// memory back to the system, except segments with buffers that were not
// freed: unmapping those would pull the memory from under their users. Then
// Close fails with [ErrInUse], and each of those segments goes back when its
// last buffer is freed. So it does while memory is registered, which stays
// pinned. A second Close does nothing.
func (p *Pool) Close() error {
	live.Remove(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.changed.Broadcast()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.rest()
	err := p.settle()
	p.rest()
	for _, e := range p.events {
		err = errors.Join(err, e.Close())
	}
	p.events = nil
	if p.buffers > 0 {
		err = errors.Join(err, p.inUseError())
	}
	if p.registered > 0 {
		err = errors.Join(err, fmt.Errorf("pinned: close: %w: %s of registered memory stay pinned until they are unregistered",
			ErrInUse, units.Bytes(p.registered)))
	}
	if p.lost > 0 {
		err = errors.Join(err, fmt.Errorf("pinned: close: %s are lost and stay mapped: %w", units.Bytes(p.lost), p.lostReason))
	}
	return err
}

// rest waits until nothing is at work with the pool unlocked.
func (p *Pool) rest() {
	for p.busy > 0 {
		p.changed.Wait()
	}
}

// settle waits for all pending blocks and gives idle segments back. It
// unlocks the pool meanwhile.
func (p *Pool) settle() error {
	waiting := p.pending
	p.pending = nil
	p.busy++
	p.mu.Unlock()
	failed := make([]error, len(waiting))
	for i, b := range waiting {
		for _, m := range b.marks {
			if e := m.event.Synchronize(); e != nil {
				// Work that failed is over: only what cannot be known is lost.
				if done, _ := m.event.Done(); !done {
					failed[i] = errors.Join(failed[i], e)
				}
			}
		}
	}
	p.mu.Lock()
	var err error
	for i, b := range waiting {
		p.pendingBytes -= b.size
		if e := failed[i]; e != nil {
			p.lose(b, fmt.Errorf("pinned: wait for pending %s: %w", units.Bytes(b.size), e))
			err = errors.Join(err, p.lostReason)
			continue
		}
		for _, m := range b.marks {
			p.keep(m)
		}
		b.marks = b.marks[:0]
		p.release(b)
	}
	p.done()
	_, e := p.giveBack(p.idleSegments())
	return errors.Join(err, e)
}

// inUseError lists the buffers that are in use, largest first.
func (p *Pool) inUseError() error {
	const most = 5
	var sizes []int64
	for s := range p.segments {
		for b := s.first; b != nil; b = b.next {
			if b.requested > 0 {
				sizes = append(sizes, b.requested)
			}
		}
	}
	slices.Sort(sizes)
	slices.Reverse(sizes)
	var list []string
	for _, n := range sizes[:min(most, len(sizes))] {
		list = append(list, units.Bytes(n))
	}
	if len(sizes) > most {
		list = append(list, "…")
	}
	return fmt.Errorf("pinned: close: %w: %d of %s in all (%s); segments of %s stay until they are freed",
		ErrInUse, p.buffers, units.Bytes(p.requested), strings.Join(list, ", "), units.Bytes(p.reserved))
}
