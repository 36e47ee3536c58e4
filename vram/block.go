package vram

import (
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// Block is live memory of a pool. It is a handle that may be copied; the zero
// value is no block. The memory belongs to whoever asked for it until Free.
type Block struct {
	b         *block
	life      uint64 // of b, when it was handed out
	ptr       device.Ptr
	requested int64
}

// Ptr is the address, aligned to 512 bytes. The zero block has none.
func (b Block) Ptr() device.Ptr { return b.ptr }

// Bytes is how many bytes were asked for.
func (b Block) Bytes() int64 { return b.requested }

// unit is what sizes are rounded to, and what blocks are aligned to.
const unit = 512

// blockBytes is what a block of n bytes takes.
func blockBytes(n int64) int64 { return roundUp(n + guard) }

func roundUp(n int64) int64 { return (n + unit - 1) &^ (unit - 1) }

// kind is what the central structures know of a block.
type kind uint8

const (
	taken   kind = iota // live, or kept by a shard for its next user
	pending             // freed, and waiting for streams other than its own
	free                // in the set of its owner
	hole                // addresses without memory
)

// block is a range of addresses of a region. Every address of a region is in
// one block; no two neighbours are free for the same owner, nor both holes.
type block struct {
	pool   *Pool
	region *region
	ptr    device.Ptr
	bytes  int64

	// life counts the times that it was handed out, in the upper bits; the
	// lowest is set while it is live. Whoever clears that bit has freed it.
	life atomic.Uint64

	// Of the live block, or the one that was last.
	requested int64
	purpose   Purpose
	name      string
	stack     Stack
	since     time.Duration // of the pool's life
	users     []*owner      // streams besides its own that use it; guarded by Pool.mu
	owner     *owner        // its stream; nil: none, or no longer
	seq       uint64        // of the owner's frees; it is idle when they are done

	kept *block // next in a shard's line

	// Guarded by Pool.mu.
	kind       kind
	prev, next *block // neighbours by address
	set        links
}

func (b *block) end() device.Ptr { return b.ptr.Add(b.bytes) }

func (b *block) live() bool { return b.life.Load()&1 == 1 }

// handOut makes b live and returns its handle.
func (b *block) handOut(n int64) Block {
	life := b.life.Load() + 1
	b.life.Store(life)
	return Block{b, life, b.ptr, n}
}

// take makes b no longer live. It reports false if life is not b's now.
func (b *block) take(life uint64) bool { return b.life.CompareAndSwap(life, life+1) }
