package vram

import (
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram/internal/freeset"
)

// Block is live memory of a pool. It is a handle that may be copied; the zero
// value is no block. The memory belongs to the caller until Free.
type Block struct {
	b         *block
	life      uint64 // of b, when it was handed out
	ptr       device.Ptr
	requested int64
}

// Ptr is the address, aligned to 512 bytes. The zero block has none.
func (b Block) Ptr() device.Ptr { return b.ptr }

// Bytes is the number of bytes that were asked for.
func (b Block) Bytes() int64 { return b.requested }

// unit is the alignment of blocks; sizes are rounded up to it.
const unit = freeset.Unit

// blockBytes is the size of a block for n bytes.
func blockBytes(n int64) int64 { return roundUp(n + guard) }

func roundUp(n int64) int64 { return (n + unit - 1) &^ (unit - 1) }

// kind is the state of a block in the heaps.
type kind uint8

const (
	taken   kind = iota // live, or cached by a shard
	pending             // freed, but in use by streams other than its own
	free                // in the set of its owner
	hole                // addresses without memory
	lent                // addresses of memory that is used at others; within one mapping
)

// block is a range of addresses of a region. Every address of a region is in
// one block; no two neighbours are free for the same owner, nor both holes.
type block struct {
	pool   *Pool
	region *region
	ptr    device.Ptr
	bytes  int64

	// life counts, in the upper bits, how often the block was handed out; the
	// lowest bit is set while it is live. Clearing that bit frees it.
	life atomic.Uint64

	// Of the current or the latest allocation.
	requested int64
	purpose   Purpose
	name      string
	stack     Stack
	since     time.Duration // of the pool's life
	users     []*owner      // other streams that use it; guarded by Pool.mu
	owner     *owner        // its stream; nil if it has none, or is idle
	seq       uint64        // number of its free; it is idle when the owner's work up to that is done

	kept *block // the next one in a shard's line

	// Guarded by Pool.mu.
	kind       kind
	prev, next *block // neighbours by address
	set        freeset.Links[block]
}

func (b *block) end() device.Ptr { return b.ptr.Add(b.bytes) }

// key orders blocks by region and address, in every run alike.
func (b *block) key() uint64 {
	if b.region == nil {
		return uint64(b.ptr)
	}
	return uint64(b.region.number)<<44 | uint64(b.ptr-b.region.ptr)
}

// offset is where in its region b begins.
func (b *block) offset() int64 { return int64(b.ptr - b.region.ptr) }

// at returns where in its region b begins and ends.
func (b *block) at() (from, to int64) { return b.offset(), b.offset() + b.bytes }

// bare reports whether b has no memory of its own.
func (b *block) bare() bool { return b.kind == hole || b.kind == lent }

func (b *block) live() bool { return b.life.Load()&1 == 1 }

// handOut makes b live and returns its handle.
func (b *block) handOut(n int64) Block {
	life := b.life.Load() + 1
	b.life.Store(life)
	return Block{b, life, b.ptr, n}
}

// take ends the life of b. It reports false if b has another life now, or none.
func (b *block) take(life uint64) bool { return b.life.CompareAndSwap(life, life+1) }
