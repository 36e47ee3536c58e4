package pinned

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
)

// mark is an event recorded behind the last work that uses a block.
type mark struct {
	event device.Event
	own   bool // of the pool's device, so that it can be recorded again
}

// retire takes back a block that is no longer a buffer: at once, or when the
// work queued on the streams is done. It may unlock the pool meanwhile.
func (p *Pool) retire(b *block, after []device.Stream) error {
	if len(after) == 0 {
		p.release(b)
		return nil
	}
	p.pendingBytes += b.size
	p.peakPending = max(p.peakPending, p.pendingBytes)
	err := p.record(b, after)
	switch {
	case err != nil:
		p.pendingBytes -= b.size
		p.lose(b, err)
	case len(b.marks) == 0:
		p.pendingBytes -= b.size
		p.release(b)
	default:
		p.pending = append(p.pending, b)
	}
	return err
}

// record puts a mark on each stream, or waits for the stream where that
// fails. It unlocks the pool for the time of that.
func (p *Pool) record(b *block, after []device.Stream) error {
	for _, s := range after {
		m := mark{own: device.Same(s.Device(), p.dev)}
		if n := len(p.events); m.own && n > 0 {
			m.event = p.events[n-1]
			p.events = p.events[:n-1]
		}
		b.marks = append(b.marks, m)
	}
	p.busy++
	p.mu.Unlock()

	var err error
	waits := int64(0)
	for i, s := range after {
		m := &b.marks[i]
		cause := m.record(s)
		if cause == nil {
			continue
		}
		if m.event != nil {
			m.event.Close()
			m.event = nil
		}
		waits++
		// A closed stream has finished its work.
		if e := s.Synchronize(); e != nil && !errors.Is(e, device.ErrClosed) {
			err = errors.Join(err, fmt.Errorf(
				"pinned: free: the end of the work on %s cannot be known, so the memory is lost: %w; then %w",
				units.Bytes(b.size), cause, e))
		}
	}

	p.mu.Lock()
	p.waits += waits
	if waits > 0 {
		b.marks = slices.DeleteFunc(b.marks, func(m mark) bool { return m.event == nil })
	}
	p.done()
	return err
}

func (m *mark) record(s device.Stream) error {
	if m.event == nil {
		event, err := s.Device().NewEvent(device.EventNoTiming)
		if err != nil {
			return err
		}
		m.event = event
	}
	return s.Record(m.event)
}

// poll takes back the pending blocks whose work is done, in whatever order
// that came about, and returns how many.
func (p *Pool) poll() int {
	released := 0
	p.mute = 0
	for i := len(p.pending) - 1; i >= 0; i-- {
		b := p.pending[i]
		passed, asked := p.passed(b)
		if !asked {
			p.mute++
		}
		if !passed {
			continue
		}
		last := len(p.pending) - 1
		p.pending[i], p.pending[last] = p.pending[last], nil
		p.pending = p.pending[:last]
		p.pendingBytes -= b.size
		p.release(b)
		released++
	}
	return released
}

// passed drops the marks of b that are passed and reports whether all are.
// Work that failed is over too; a mark that cannot be asked is not passed.
func (p *Pool) passed(b *block) (passed, asked bool) {
	asked = true
	for i := len(b.marks) - 1; i >= 0; i-- {
		done, err := b.marks[i].event.Done()
		if err != nil {
			p.eventErr = err
		}
		if !done {
			asked = asked && err == nil
			continue
		}
		p.keep(b.marks[i])
		b.marks = slices.Delete(b.marks, i, i+1)
	}
	return len(b.marks) == 0, asked
}

// promising reports whether pending blocks may still become free.
func (p *Pool) promising() bool { return len(p.pending) > p.mute }

// How often awaitRelease asks: the driver tells nobody when work is done.
const (
	pollAtFirst = 20 * time.Microsecond
	pollAtMost  = time.Millisecond
)

// awaitRelease waits until a block has become free, of the pending ones or of
// others, or until none can any more. It unlocks the pool meanwhile.
func (p *Pool) awaitRelease(ctx context.Context) error {
	before := p.releases
	for pace := pollAtFirst; p.releases == before && !p.closed && p.promising(); pace = min(2*pace, pollAtMost) {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.mu.Unlock()
		timer := time.NewTimer(pace)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		p.mu.Lock()
		p.poll()
	}
	return nil
}

// keep stores the event of a passed mark for the next one.
func (p *Pool) keep(m mark) {
	if m.own && !p.closed {
		p.events = append(p.events, m.event)
	} else {
		m.event.Close()
	}
}

// lose gives up a block for good: the device may still use it, or the system
// would not take it back.
func (p *Pool) lose(b *block, reason error) {
	p.lost += b.size
	p.lostReason = reason
	for _, m := range b.marks {
		m.event.Close()
	}
	b.marks = nil
}
