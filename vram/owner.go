package vram

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram/internal/space"
)

// owner is a stream that uses memory. Memory freed on it may be reused there at
// once; elsewhere only when the work queued before the free is done. To know that
// without an event for each free, frees carry a number, and an event recorded
// later stands for all numbers up to its own.
type owner struct {
	stream device.Stream
	seq    atomic.Uint64 // number of the next frees

	// Guarded by Pool.mu, but for its ID, which counts from 1 on, by first use.
	space.Owner
	marks  []mark // by number
	done   uint64 // the work before frees up to this number is done
	marked uint64 // up to this number a mark stands for them
}

// mark is an event that stands for frees.
type mark struct {
	seq   uint64
	event device.Event
}

// inSpace is what the space knows of o; nil for none.
func (o *owner) inSpace() *space.Owner {
	if o == nil {
		return nil
	}
	return &o.Owner
}

// hash tells owners apart in a shard. A nil owner has one, too.
func (o *owner) hash() uint64 {
	if o == nil {
		return 0
	}
	return uint64(o.ID) * 0xff51afd7ed558ccd
}

// number identifies o in the history and in snapshots.
func (o *owner) number() int32 {
	if o == nil {
		return 0
	}
	return o.ID
}

// now is the number that a free on o carries.
func (o *owner) now() uint64 {
	if o == nil {
		return 0
	}
	return o.seq.Load()
}

// owner returns the owner for a stream; nil for none. The lock of s is held.
func (p *Pool) owner(s *shard, stream device.Stream) (*owner, error) {
	if stream == nil {
		return nil, nil
	}
	if s.stream == stream {
		return s.owner, nil
	}
	x, there := p.owners.Load(stream)
	if !there {
		if theirs, ours := stream.Device().Info().ID, p.dev.Info().ID; theirs != ours && !device.Same(stream.Device(), p.dev) {
			return nil, fmt.Errorf("vram: %w: the stream is of %s, the pool is on %s", device.ErrArgument, theirs, ours)
		}
		o := &owner{stream: stream, Owner: space.Owner{ID: p.ownerIDs.Add(1)}}
		o.seq.Store(1)
		x, _ = p.owners.LoadOrStore(stream, o)
	}
	s.stream, s.owner = stream, x.(*owner)
	return s.owner, nil
}

// forget drops owners whose streams were closed, once for every 256 new ones.
// Pool.mu is held.
func (p *Pool) forget() {
	const often = 256 // new owners
	if p.ownerIDs.Load() < p.forgotten+often {
		return
	}
	p.forgotten = p.ownerIDs.Load()
	p.owners.Range(func(_, x any) bool {
		o := x.(*owner)
		switch e, err := p.record(o.stream); {
		case err == nil:
			p.events = append(p.events, e)
		case errors.Is(err, device.ErrClosed):
			p.end(o)
			p.settle(o)
		}
		return true
	})
}

// maxMarks bounds the marks of a stream. If a stream is held up for hours and
// polled again and again, its marks would otherwise grow without end: each takes
// an event and a place in the stream's queue.
const maxMarks = 64

// advance marks the frees on o, polls how far o is, and reports whether any of its
// memory became idle. Afterwards marks stand for all frees, or there are maxMarks
// of them. Pool.mu is held.
func (p *Pool) advance(o *owner) (found bool) {
	for {
		full := len(o.marks) == maxMarks
		p.mark(o)
		found = p.settle(o) || found
		if !full || len(o.marks) == maxMarks {
			return found
		}
	}
}

// mark records an event behind all frees of o so far, unless marks stand for all
// of them already, or there are maxMarks. Pool.mu is held.
func (p *Pool) mark(o *owner) {
	if o.Newest() <= o.marked || len(o.marks) == maxMarks {
		return
	}
	// First the number: a free that still carries it came before the event.
	seq := o.seq.Add(1) - 1
	switch e, err := p.record(o.stream); {
	case err == nil:
		o.marked = seq
		o.marks = append(o.marks, mark{seq, e})
	case errors.Is(err, device.ErrClosed):
		p.end(o)
	} // after any other error the memory waits for the next mark
}

// end notes that the stream of o was closed, which waited for its work: what was
// freed on it is idle, once p.settle has seen it, and so is all that comes. Pool.mu
// is held.
func (p *Pool) end(o *owner) {
	seq := o.seq.Add(1) - 1
	o.marked, o.done, o.Ended = seq, seq, true
	p.owners.Delete(o.stream)
}

// settle makes the memory that o's passed marks stand for idle, and reports
// whether there was any. Pool.mu is held.
func (p *Pool) settle(o *owner) (found bool) {
	passed := 0
	for _, m := range o.marks {
		if done, _ := m.event.Done(); !done { // with true, an error is that of the user's work, which is over
			break
		}
		o.done = max(o.done, m.seq)
		passed++
		p.events = append(p.events, m.event)
	}
	o.marks = slices.Delete(o.marks, 0, passed)
	if found = p.space.Settle(&o.Owner, o.done); found {
		p.settled++
	}
	return found
}

// event returns an unused event. Pool.mu is held.
func (p *Pool) event() (device.Event, error) {
	if n := len(p.events); n > 0 {
		e := p.events[n-1]
		p.events = p.events[:n-1]
		return e, nil
	}
	return p.dev.NewEvent(device.EventNoTiming)
}

// record records an unused event on s. Pool.mu is held.
func (p *Pool) record(s device.Stream) (device.Event, error) {
	e, err := p.event()
	if err != nil {
		return nil, err
	}
	if err := s.Record(e); err != nil {
		p.events = append(p.events, e)
		return nil, err
	}
	return e, nil
}

// pollTime is how long an allocation of n bytes polls for freed memory to become
// idle before it takes more from the device. It is less than the device takes to
// map as much: waiting for a device that is nearly done pays, and one that is far
// behind costs little.
func (p *Pool) pollTime(n int64) time.Duration {
	const least, most, each = 50 * time.Microsecond, 5 * time.Millisecond, 20 * time.Microsecond
	if p.chunk == 0 {
		return least
	}
	return min(least+time.Duration((n+p.chunk-1)/p.chunk)*each, most)
}

// poll makes freed memory that no stream uses any more idle, and reports whether
// there was any. It polls until all is idle, at most for limit. Pool.mu is held.
func (p *Pool) poll(limit time.Duration) bool {
	found := p.settlePending()
	var busy []*owner
	p.owners.Range(func(_, x any) bool {
		if o := x.(*owner); len(o.marks) > 0 || o.Blocks() > 0 {
			busy = append(busy, o)
		}
		return true
	})
	slices.SortFunc(busy, func(a, b *owner) int { return cmp.Compare(a.ID, b.ID) }) // in every run alike
	busy = slices.DeleteFunc(busy, func(o *owner) bool {
		found = p.advance(o) || found
		return len(o.marks) == 0
	})
	for start := time.Now(); len(busy) > 0 && time.Since(start) < limit; {
		runtime.Gosched()
		busy = slices.DeleteFunc(busy, func(o *owner) bool {
			found = p.advance(o) || found
			return len(o.marks) == 0
		})
	}
	return found
}
