package vram

import (
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram/internal/space"
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
const unit = space.Unit

// blockBytes is the size of a block for n bytes.
func blockBytes(n int64) int64 { return roundUp(n + guard) }

func roundUp(n int64) int64 { return (n + unit - 1) &^ (unit - 1) }

// block is memory that is live, pending, or cached by a shard. The struct outlives
// it, and is used for others.
type block struct {
	pool  *Pool
	index int          // in Pool.blocks
	mem   *space.Block // nil: there is no memory, or the driver's pool has it
	ptr   device.Ptr
	bytes int64

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
	owner     *owner        // its stream; nil: none
	seq       uint64        // number of its free; it is idle when the owner's work up to that is done
	pending   bool          // freed, but in use by users; guarded by Pool.mu

	kept *block // the next one in a shard's line
}

func (b *block) live() bool { return b.life.Load()&1 == 1 }

// handOut makes b live and returns its handle.
func (b *block) handOut(n int64) Block {
	life := b.life.Load() + 1
	b.life.Store(life)
	return Block{b, life, b.ptr, n}
}

// take ends the life of b. It reports false if b has another life now, or none.
func (b *block) take(life uint64) bool { return b.life.CompareAndSwap(life, life+1) }
