package vram

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// owner is a stream that uses memory. What is freed on it can be used there
// again at once; elsewhere only when the work that was queued before the free is
// done. To know that without an event for each free, frees carry a number, and
// an event that is recorded later stands for all numbers up to its own.
type owner struct {
	stream device.Stream
	id     int32         // from 1 on, by first use
	seq    atomic.Uint64 // number of the frees from now on

	// Guarded by Pool.mu.
	free   [heaps]freeSet
	marks  []mark // by number
	done   uint64 // frees up to this number are over
	marked uint64 // and up to this number a mark stands for them
	oldest uint64 // of the numbers in free, or less
	newest uint64 // of those that were ever in free
	ended  bool   // the stream was closed: what is freed on it is idle
}

// mark is an event that stands for frees.
type mark struct {
	seq   uint64
	event device.Event
}

// hash tells owners apart in a shard. No owner is one, too.
func (o *owner) hash() uint64 {
	if o == nil {
		return 0
	}
	return uint64(o.id) * 0xff51afd7ed558ccd
}

// number is how the history and snapshots call o.
func (o *owner) number() int32 {
	if o == nil {
		return 0
	}
	return o.id
}

// now is what a free on o carries.
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
			return nil, fmt.Errorf("vram: %w: a stream of %s, the pool is on %s", device.ErrArgument, theirs, ours)
		}
		o := &owner{stream: stream, id: p.ownerIDs.Add(1)}
		o.seq.Store(1)
		x, _ = p.owners.LoadOrStore(stream, o)
	}
	s.stream, s.owner = stream, x.(*owner)
	return s.owner, nil
}

// forget drops the owners whose streams were closed, now and then. Pool.mu is
// held.
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
			o.newest = max(o.newest, o.marked+1) // so that mark looks at it, too
			p.advance(o)
		}
		return true
	})
}

// maxMarks is the most marks of a stream at a time. While one that is held up
// for hours is looked at again and again, its marks would grow without end: each
// takes an event and a place in its queue.
const maxMarks = 64

// advance marks what was freed on o, looks how far o is, and reports whether any
// of its memory became free for everybody. Afterwards some mark stands for all
// frees, or there are as many marks as there may be. Pool.mu is held.
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

// mark records an event behind all frees of o so far, unless there are none that
// no mark stands for, or no room. Pool.mu is held.
func (p *Pool) mark(o *owner) {
	if o.newest <= o.marked || len(o.marks) == maxMarks {
		return
	}
	// First the number: a free that still carries it came before the event.
	seq := o.seq.Add(1) - 1
	switch e, err := p.record(o.stream); {
	case err == nil:
		o.marked = seq
		o.marks = append(o.marks, mark{seq, e})
	case errors.Is(err, device.ErrClosed): // which waited for its work
		o.marked, o.done, o.ended = seq, seq, true
		p.owners.Delete(o.stream)
	} // after any other error the memory waits for the next mark
}

// settle makes what o's passed marks stand for free for everybody, and reports
// whether there was any. Pool.mu is held.
func (p *Pool) settle(o *owner) (found bool) {
	passed := 0
	for _, m := range o.marks {
		if done, _ := m.event.Done(); !done { // an error beside true is that of the user's work, which is over
			break
		}
		o.done = max(o.done, m.seq)
		passed++
		p.events = append(p.events, m.event)
	}
	o.marks = slices.Delete(o.marks, 0, passed)
	if o.oldest > o.done {
		return false
	}
	o.oldest = math.MaxUint64
	defer func() {
		if found {
			p.settled++
		}
	}()
	for i, h := range p.heaps {
		for _, b := range o.free[i].blocks(nil) {
			switch {
			case b.kind != free || b.owner != o: // it was merged
			case b.seq <= o.done:
				h.unset(b)
				b.owner, b.seq = nil, 0
				h.give(b)
				found = true
			default:
				o.oldest = min(o.oldest, b.seq)
			}
		}
	}
	return found
}

// event takes an event that nobody uses. Pool.mu is held.
func (p *Pool) event() (device.Event, error) {
	if n := len(p.events); n > 0 {
		e := p.events[n-1]
		p.events = p.events[:n-1]
		return e, nil
	}
	return p.dev.NewEvent(device.EventNoTiming)
}

// record takes an event that nobody uses and records it on s. Pool.mu is held.
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

// patience is how long an allocation of n bytes that would have to take more
// memory looks whether freed memory becomes idle: less than it takes to get as
// much from the device (33 µs a chunk on an H200), so that a device which is
// about to be done is worth the wait, and one that is far behind costs little.
func (p *Pool) patience(n int64) time.Duration {
	const least, most, each = 50 * time.Microsecond, 5 * time.Millisecond, 20 * time.Microsecond
	if p.chunk == 0 {
		return least
	}
	return min(least+time.Duration(n/p.chunk)*each, most)
}

// poll looks, for as long as that takes or at most so long, which freed memory
// nobody uses any more, and reports whether there was any. Pool.mu is held.
func (p *Pool) poll(patience time.Duration) bool {
	found := p.settleWaiting()
	var busy []*owner
	p.owners.Range(func(_, x any) bool {
		o := x.(*owner)
		if len(o.marks) == 0 && o.free[smallHeap].count+o.free[largeHeap].count == 0 {
			return true
		}
		found = p.advance(o) || found
		if len(o.marks) > 0 {
			busy = append(busy, o)
		}
		return true
	})
	for start := time.Now(); len(busy) > 0 && time.Since(start) < patience; {
		runtime.Gosched()
		busy = slices.DeleteFunc(busy, func(o *owner) bool {
			found = p.advance(o) || found
			return len(o.marks) == 0
		})
	}
	return found
}
