package vram

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Account follows an amount over time, in bytes or in blocks. Current, Allocated
// and Freed are exact. So is Peak while one processor allocates; each further
// processor may put it off by 1/1024 of the pool's budget, or of the device's
// memory, and by 1/128 in accounts other than Stats.Allocated.
type Account struct {
	Current   int64
	Peak      int64 // of Current, since the pool was made or ResetPeaks
	Allocated int64 // in total, since the pool was made
	Freed     int64 // likewise
}

// Stats is the state of a pool at one moment.
type Stats struct {
	Requested Account // bytes asked for, of live blocks
	Allocated Account // bytes of live blocks, rounded to whole units
	Active    Account // Allocated, and freed bytes that other streams still use
	Reserved  Account // bytes that the pool has from the device
	Blocks    Account // number of live blocks

	Purposes [purposes]PurposeStats // by Purpose

	Free        int64 // bytes of Reserved in no live or pending block
	Fragmented  int64 // bytes of Free in chunks that live blocks share: they cannot be moved
	LargestFree int64 // bytes of the largest free block
	Budget      int64 // the most that Reserved may be; 0: all of the device
	ChunkUnit   int64 // size of the smallest chunk of physical memory that there may be; 0: there are only segments
	ChunkBytes  int64 // size of the largest; 0: there are only segments

	Calls       DriverCalls
	Retries     int64 // allocations that succeeded after memory was short
	OutOfMemory int64 // allocations that failed
	Age         time.Duration
}

// PurposeStats are the accounts of one purpose.
type PurposeStats struct {
	Purpose   Purpose
	Requested Account
	Allocated Account
	Limit     int64 // the most that Allocated may be; 0: no limit
}

// DriverCalls counts calls that made, mapped or returned memory.
type DriverCalls struct {
	Create, Release int64 // of chunks, or of segments where there are no chunks
	Map, Unmap      int64 // chunks that were mapped and unmapped
}

// Total is the number of all calls.
func (c DriverCalls) Total() int64 { return c.Create + c.Release + c.Map + c.Unmap }

// Fragmentation is the share, 0 to 1, of the reserved bytes that are free but
// cannot be moved to where they are needed: free blocks smaller than a chunk, and
// parts of chunks whose other part is in use.
func (s Stats) Fragmentation() float64 {
	if s.Reserved.Current == 0 {
		return 0
	}
	return float64(s.Fragmented) / float64(s.Reserved.Current)
}

// Stats returns the statistics.
func (p *Pool) Stats() (s Stats) {
	p.freeze(func() { s = p.stats() })
	return s
}

// stats fills in Stats. The pool is frozen.
func (p *Pool) stats() Stats {
	s := Stats{
		Requested:   p.account(&p.live.requested, func(t *tally[gauge]) *gauge { return &t.requested }),
		Allocated:   p.account(&p.live.allocated, func(t *tally[gauge]) *gauge { return &t.allocated }),
		Blocks:      p.account(&p.live.blocks, func(t *tally[gauge]) *gauge { return &t.blocks }),
		Reserved:    Account{Current: p.ledger.Current(), Peak: p.ledger.Peak, Allocated: p.ledger.Taken, Freed: p.ledger.Returned},
		Budget:      p.options.Budget,
		ChunkUnit:   p.unit,
		ChunkBytes:  p.chunk,
		Calls:       DriverCalls(p.ledger.Calls),
		Retries:     p.retries.Load(),
		OutOfMemory: p.failed.Load(),
		Age:         time.Since(p.start),
	}
	s.Active = s.Allocated
	s.Active.Current += p.pendingBytes.Load()
	s.Active.Freed -= p.pendingBytes.Load()
	s.Active.Peak = max(p.active.peak.Load(), s.Active.Current, s.Allocated.Peak)
	for i := range s.Purposes {
		l := &p.live.purposes[i]
		s.Purposes[i] = PurposeStats{Purpose: Purpose(i), Limit: p.limited[i].hard,
			Requested: p.account(&l.requested, func(t *tally[gauge]) *gauge { return &t.purposes[i].requested }),
			Allocated: p.account(&l.allocated, func(t *tally[gauge]) *gauge { return &t.purposes[i].allocated })}
	}
	s.Free = s.Reserved.Current - s.Active.Current
	s.Fragmented = s.Free
	if p.space != nil && !p.closed.Load() {
		s.Fragmented -= p.space.Movable()
		s.LargestFree = p.space.Largest()
		p.owners.Range(func(_, x any) bool {
			s.LargestFree = max(s.LargestFree, x.(*owner).Largest())
			return true
		})
	}
	return s
}

// ResetPeaks sets the peaks to the current values.
func (p *Pool) ResetPeaks() {
	p.freeze(func() {
		list := []*level{&p.live.requested, &p.live.allocated, &p.live.blocks}
		for i := range p.live.purposes {
			list = append(list, &p.live.purposes[i].requested, &p.live.purposes[i].allocated)
		}
		for _, l := range list {
			l.peak.Store(l.current.Load())
		}
		p.active.peak.Store(0)
		p.ledger.Peak = p.ledger.Current()
	})
}

// Summary prints the statistics as a table, as torch.cuda.memory_summary does.
// It ends with a line feed.
func (s Stats) Summary() string {
	head := []string{"", ">current", ">peak", ">total allocated", ">total freed"}
	if slices.ContainsFunc(s.Purposes[:], func(p PurposeStats) bool { return p.Limit != 0 && p.Allocated.Allocated != 0 }) {
		head = append(head, ">limit")
	}
	t := texttable.New(head...)
	row := func(name string, a Account, print func(int64) string, more ...string) {
		t.Add(append([]string{name, print(a.Current), print(a.Peak), print(a.Allocated), print(a.Freed)}, more...)...)
	}
	row("requested", s.Requested, units.Bytes)
	row("allocated", s.Allocated, units.Bytes)
	for i, p := range s.Purposes {
		if p.Allocated.Allocated == 0 {
			continue
		}
		var limit []string
		if p.Limit != 0 {
			limit = []string{units.Bytes(p.Limit)}
		}
		row("  "+Purpose(i).String(), p.Allocated, units.Bytes, limit...)
	}
	row("active", s.Active, units.Bytes)
	row("reserved", s.Reserved, units.Bytes)
	t.Add("free", units.Bytes(s.Free))
	t.Add("  fragmented", units.Bytes(s.Fragmented))
	t.Add("  largest block", units.Bytes(s.LargestFree))
	row("blocks", s.Blocks, number)

	chunks, budget := "whole segments", "all of the device"
	if s.ChunkBytes != 0 {
		chunks = units.Bytes(s.ChunkBytes)
	}
	if s.Budget != 0 {
		budget = units.Bytes(s.Budget)
	}
	rest := texttable.New("", "")
	rest.Add("driver calls", fmt.Sprintf("%d: %d create, %d release, %d map, %d unmap",
		s.Calls.Total(), s.Calls.Create, s.Calls.Release, s.Calls.Map, s.Calls.Unmap))
	rest.Add("retries", number(s.Retries))
	rest.Add("out of memory", number(s.OutOfMemory))
	rest.Add("fragmentation", s.fragmentationText())
	rest.Add("chunk size", chunks)
	rest.Add("budget", budget)
	return t.String() + "\n" + rest.String()
}

func (s Stats) fragmentationText() string {
	if s.Reserved.Current <= 0 {
		return "none: nothing is reserved"
	}
	return units.Percent(s.Fragmentation()) + " of reserved"
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
