package vram

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// still calls f while no block comes or goes, and nothing changes in the heaps.
// Shards keep nothing meanwhile.
func (p *Pool) still(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stillLocked(f)
}

// stillLocked is still with Pool.mu held.
func (p *Pool) stillLocked(f func()) {
	p.flush()
	list := p.shards.list()
	for _, s := range list {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.publish(s)
	}
	f()
}

// each calls f for every live block. Everything is still.
func (p *Pool) each(f func(*block)) {
	if p.async != nil {
		for b := p.async.first; b != nil; b = b.next {
			if b.live() {
				f(b)
			}
		}
		return
	}
	for _, h := range p.heaps {
		for _, r := range h.regions {
			for b := r.first; b != nil; b = b.next {
				if b.kind == taken && b.live() {
					f(b)
				}
			}
		}
	}
}

// Stats returns the accounts.
func (p *Pool) Stats() (s Stats) {
	p.still(func() { s = p.stats() })
	return s
}

// stats fills in Stats. Everything is still.
func (p *Pool) stats() Stats {
	s := Stats{
		Requested:   p.account(&p.live.requested, func(t *tally[gauge]) *gauge { return &t.requested }),
		Allocated:   p.account(&p.live.allocated, func(t *tally[gauge]) *gauge { return &t.allocated }),
		Blocks:      p.account(&p.live.blocks, func(t *tally[gauge]) *gauge { return &t.blocks }),
		Reserved:    p.reserved.account(),
		Budget:      p.options.Budget,
		ChunkBytes:  p.chunk,
		Calls:       p.calls,
		Retries:     p.retries.Load(),
		OutOfMemory: p.failed.Load(),
		Age:         time.Since(p.start),
	}
	s.Active = s.Allocated
	s.Active.Current += p.waiting.Load()
	s.Active.Freed -= p.waiting.Load()
	s.Active.Peak = max(p.active.peak.Load(), s.Active.Current, s.Allocated.Peak)
	for i := range s.Purposes {
		l := &p.live.purposes[i]
		s.Purposes[i] = PurposeStats{Purpose: Purpose(i), Limit: p.limited[i].most,
			Requested: p.account(&l.requested, func(t *tally[gauge]) *gauge { return &t.purposes[i].requested }),
			Allocated: p.account(&l.allocated, func(t *tally[gauge]) *gauge { return &t.purposes[i].allocated })}
	}
	s.Free = s.Reserved.Current - s.Active.Current
	s.Stuck = s.Free
	for i, h := range p.heaps {
		if h.backing == nil {
			break
		}
		count := func(set *freeSet) {
			if b := set.largest(); b != nil {
				s.LargestFree = max(s.LargestFree, b.bytes)
			}
			for _, b := range set.blocks(nil) {
				s.Stuck -= h.backing.spare(b)
			}
		}
		count(&h.idle)
		p.owners.Range(func(_, x any) bool {
			count(&x.(*owner).free[i])
			return true
		})
		s.Stuck -= h.backing.loose()
	}
	return s
}

// ResetPeaks starts the peaks anew from what is now.
func (p *Pool) ResetPeaks() {
	p.still(func() {
		list := []*level{&p.live.requested, &p.live.allocated, &p.live.blocks, &p.reserved.level}
		for i := range p.live.purposes {
			list = append(list, &p.live.purposes[i].requested, &p.live.purposes[i].allocated)
		}
		for _, l := range list {
			l.peak.Store(l.current.Load())
		}
		p.active.peak.Store(0)
	})
}

// Snapshot returns all that the pool knows.
func (p *Pool) Snapshot() (s Snapshot) {
	s = Snapshot{Device: p.dev.Info().ID, Time: time.Now(), Start: p.start}
	p.still(func() {
		s.Stats = p.stats()
		s.Events, s.Dropped = p.history.list()
		if p.async != nil {
			p.each(func(b *block) {
				s.Segments = append(s.Segments, Segment{Address: b.ptr, Bytes: b.bytes, Blocks: []BlockInfo{b.info()}})
			})
		} else {
			for i, h := range p.heaps {
				for _, r := range h.regions {
					s.Segments = append(s.Segments, r.segments(i == smallHeap)...)
				}
			}
		}
	})
	slices.SortFunc(s.Segments, func(a, b Segment) int { return cmp.Compare(a.Address, b.Address) })
	return s
}

// segments are the ranges of r with memory behind them.
func (r *region) segments(small bool) (list []Segment) {
	for b := r.first; b != nil; b = b.next {
		if b.kind == hole {
			continue
		}
		if b.prev == nil || b.prev.kind == hole {
			list = append(list, Segment{Address: b.ptr, Small: small})
		}
		s := &list[len(list)-1]
		s.Bytes += b.bytes
		s.Blocks = append(s.Blocks, b.info())
	}
	return list
}

func (b *block) info() BlockInfo {
	i := BlockInfo{Address: b.ptr, Bytes: b.bytes, State: BlockFree, Stream: b.owner.number()}
	switch {
	case b.kind == pending:
		i.State = BlockPending
	case b.kind == taken && b.live():
		i.State = BlockLive
	}
	if i.State != BlockFree {
		i.Requested, i.Purpose, i.Name, i.Since, i.Stack = b.requested, b.purpose, b.name, b.since, b.stack
	}
	return i
}

// Lookup returns the live block that an address lies in. It fails with
// [ErrForeign] when there is none. It is for debugging: it stops the pool and
// looks at every block.
func (p *Pool) Lookup(at device.Ptr) (Block, error) {
	found := Block{}
	p.still(func() {
		p.each(func(b *block) {
			if at >= b.ptr && at < b.end() {
				found = Block{b, b.life.Load(), b.ptr, b.requested}
			}
		})
	})
	if found.b == nil {
		return found, fmt.Errorf("vram: %#x: %w", uint64(at), ErrForeign)
	}
	return found, nil
}

// LeakError lists what was live when the pool was closed.
type LeakError struct {
	Leaks []BlockInfo // the largest first
	Bytes int64       // that were asked for, of all
}

// Error names the largest leaks, with where they come from if that was recorded.
func (e *LeakError) Error() string {
	var w strings.Builder
	fmt.Fprintf(&w, "vram: %d blocks with %d bytes were not freed:", len(e.Leaks), e.Bytes)
	for i, l := range e.Leaks {
		if i == 10 {
			fmt.Fprintf(&w, "\n\tand %d more", len(e.Leaks)-i)
			break
		}
		fmt.Fprintf(&w, "\n\t%d bytes of %v", l.Requested, l.Purpose)
		if l.Name != "" {
			fmt.Fprintf(&w, " (%s)", l.Name)
		}
		if l.Since > 0 {
			fmt.Fprintf(&w, " since %v after the pool was made", l.Since.Round(time.Millisecond))
		}
		if f, ok := l.Stack.Caller(); ok {
			fmt.Fprintf(&w, " from %s (%s:%d)", f.Function, f.File, f.Line)
		}
	}
	return w.String()
}

// leaks ends the life of all live blocks and lists them; nil without any.
// Pool.mu is held, and the pool is closed.
func (p *Pool) leaks() *LeakError {
	for _, s := range p.shards.list() { // those who are in one are out before it goes on
		s.mu.Lock()
		p.publish(s)
		s.mu.Unlock()
	}
	e := &LeakError{}
	p.each(func(b *block) {
		life := b.life.Load()
		info := b.info()
		if life&1 == 1 && b.take(life) {
			e.Leaks = append(e.Leaks, info)
			e.Bytes += info.Requested
		}
	})
	slices.SortStableFunc(e.Leaks, func(a, b BlockInfo) int { return cmp.Compare(b.Requested, a.Requested) })
	return e
}

func (e *LeakError) err() error {
	if len(e.Leaks) == 0 {
		return nil
	}
	return e
}

// outOfMemory makes the error of an allocation that failed.
func (p *Pool) outOfMemory(n int64, use Use, cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outOfMemoryLocked(n, use, cause)
}

// outOfMemoryLocked is outOfMemory with Pool.mu held.
func (p *Pool) outOfMemoryLocked(n int64, use Use, cause error) error {
	p.failed.Add(1)
	e := &OutOfMemoryError{Device: p.dev.Info().ID, Asked: n, Purpose: use.Purpose, Name: use.Name, cause: cause}
	e.Memory, _ = p.dev.Memory()
	p.stillLocked(func() {
		e.Stats = p.stats()
		at := map[Holder]int{}
		p.each(func(b *block) {
			key := Holder{Purpose: b.purpose, Name: b.name}
			i, there := at[key]
			if !there {
				i = len(e.Holders)
				at[key] = i
				e.Holders = append(e.Holders, key)
			}
			e.Holders[i].Blocks++
			e.Holders[i].Allocated += b.bytes
		})
	})
	slices.SortStableFunc(e.Holders, func(a, b Holder) int { return cmp.Compare(b.Allocated, a.Allocated) })
	e.Holders = e.Holders[:min(len(e.Holders), 10)]
	e.Advice = e.advise()
	p.log(Event{Kind: EventOutOfMemory, Purpose: use.Purpose, Address: device.Ptr(e.Memory.FreeBytes), Bytes: blockBytes(n), Asked: n, Name: use.Name})
	return e
}
