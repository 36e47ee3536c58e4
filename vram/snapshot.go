package vram

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram/internal/space"
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
		p.visit(func(b BlockInfo, first, small bool) {
			if first {
				s.Segments = append(s.Segments, Segment{Address: b.Address, Small: small})
			}
			last := &s.Segments[len(s.Segments)-1]
			last.Bytes += b.Bytes
			last.Blocks = append(last.Blocks, b)
		})
	})
	slices.SortFunc(s.Segments, func(a, b Segment) int { return cmp.Compare(a.Address, b.Address) })
	return s
}

// Visit calls f for every block of the pool: segment by segment, in no order of
// theirs, and by address in each; first says that b begins a segment. It is Snapshot
// for those who look at many blocks and keep few. The pool is frozen meanwhile: f
// must be quick, and must not use the pool.
func (p *Pool) Visit(f func(b BlockInfo, first bool)) {
	p.freeze(func() {
		p.visit(func(b BlockInfo, first, _ bool) { f(b, first) })
	})
}

// visit calls f for every block with memory. The pool is frozen.
func (p *Pool) visit(f func(b BlockInfo, first, small bool)) {
	if p.closed.Load() {
		return
	}
	if p.async != nil {
		p.each(func(b *block) { f(b.info(), true, false) }) // each is a segment
		return
	}
	p.space.Visit(func(b *space.Block, first, small bool) {
		if !b.Free() {
			f(p.blocks[b.Tag].info(), first, small)
			return
		}
		free := BlockInfo{Address: b.Ptr(), Bytes: b.Bytes(), State: BlockFree}
		if o := b.Owner(); o != nil {
			free.Stream = o.ID
		}
		f(free, first, small)
	})
}

func (b *block) info() BlockInfo {
	i := BlockInfo{Address: b.ptr, Bytes: b.bytes, State: BlockFree, Stream: b.owner.number()}
	switch {
	case b.pending:
		i.State = BlockPending
	case b.live():
		i.State = BlockLive
	}
	if i.State != BlockFree {
		i.Requested, i.Purpose, i.Name, i.Since, i.Stack = b.requested, b.purpose, b.name, b.since, b.stack
	}
	return i
}

// freeze calls f while the pool is frozen: no block is allocated or freed, nothing
// changes in the space, and shards cache nothing.
func (p *Pool) freeze(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freezeLocked(f)
}

// freezeLocked is freeze with Pool.mu held.
func (p *Pool) freezeLocked(f func()) {
	if !p.closed.Load() { // its memory is gone
		p.flush()
	}
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
	for _, b := range p.blocks {
		if b.live() {
			f(b)
		}
	}
}

// Live lists the live blocks, in no order. It freezes the pool and visits every
// block, but keeps less than a [Snapshot].
func (p *Pool) Live() (list []BlockInfo) {
	p.freeze(func() {
		p.each(func(b *block) { list = append(list, b.info()) })
	})
	return list
}

// Lookup returns the live block that contains an address. It fails with
// [ErrForeign] if there is none. It is for debugging: it freezes the pool and
// visits every block.
func (p *Pool) Lookup(at device.Ptr) (Block, error) {
	found := Block{}
	p.freeze(func() {
		p.each(func(b *block) {
			if at >= b.ptr && at < b.ptr.Add(b.bytes) {
				found = Block{b, b.life.Load(), b.ptr, b.requested}
			}
		})
	})
	if found.b == nil {
		return found, fmt.Errorf("vram: %#x: %w", uint64(at), ErrForeign)
	}
	return found, nil
}
