package vram

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// BlockState is the state of a block.
type BlockState uint8

const (
	BlockLive    BlockState = iota
	BlockPending            // freed, still in use by a stream
	BlockFree
)

// Snapshot is the state of a pool at one moment, for tools that draw it.
type Snapshot struct {
	Device   string // ID of the device
	Time     time.Time
	Start    time.Time // of the pool: events count from there
	Stats    Stats
	Segments []Segment // by address
	Events   []Event   // by time, the newest that the ring holds
	Dropped  int64     // events that were overwritten
}

// Segment is a range of addresses that memory is mapped to.
type Segment struct {
	Address device.Ptr
	Bytes   int64
	Small   bool        // it holds small blocks
	Blocks  []BlockInfo // by address, without gaps
}

// BlockInfo describes a block.
type BlockInfo struct {
	Address   device.Ptr
	Bytes     int64 // rounded
	Requested int64 // 0 for a free block
	State     BlockState
	Stream    int32
	Purpose   Purpose
	Name      string
	Since     time.Duration // when it became live, since the pool was made
	Stack     Stack
}

// Snapshot returns the state of the pool.
func (p *Pool) Snapshot() (s Snapshot) {
	s = Snapshot{Device: p.dev.Info().ID, Time: time.Now(), Start: p.start}
	p.freeze(func() {
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

// segments lists the ranges of r that memory is mapped to.
func (r *region) segments(small bool) (list []Segment) {
	for b := r.first; b != nil; b = b.next {
		if b.bare() {
			continue
		}
		if b.prev == nil || b.prev.bare() {
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

// freeze calls f while the pool is frozen: no block is allocated or freed, nothing
// changes in the heaps, and shards cache nothing.
func (p *Pool) freeze(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freezeLocked(f)
}

// freezeLocked is freeze with Pool.mu held.
func (p *Pool) freezeLocked(f func()) {
	p.flush()
	list := p.shards.list()
	for _, s := range list {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.publish(s)
	}
	f()
}

// each calls f for every live block. The pool is frozen.
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

// Lookup returns the live block that contains an address. It fails with
// [ErrForeign] if there is none. It is for debugging: it freezes the pool and
// visits every block.
func (p *Pool) Lookup(at device.Ptr) (Block, error) {
	found := Block{}
	p.freeze(func() {
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
