package space

import (
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram/internal/freeset"
)

// Unit divides the sizes of all blocks, and their places.
const Unit = freeset.Unit

// LeastChunk is the size of the smallest chunk that there may be: a block with a
// whole chunk in it is in the treap of its set.
const LeastChunk = freeset.Binned

// kind is the state of a block.
type kind uint8

const (
	taken kind = iota // somebody has it
	free              // in the set of its owner
	hole              // addresses without memory
	lent              // addresses of memory that is used at others; within one mapping
)

// Block is a range of addresses of a region. Every address of a region is in one
// block; no two neighbours are free for the same owner, nor both holes. Whoever
// took a block may keep the pointer until [Space.Give].
type Block struct {
	// Tag is for whoever took the block.
	Tag int

	region *region
	ptr    device.Ptr
	bytes  int64
	kind   kind
	owner  *Owner // of a free block: who may have it; nil: all, it is idle
	number uint64 // of its free, by its owner

	start, end int64  // where in the region the whole chunks in it begin and end, while it is free
	prev, next *Block // neighbours by address
	set        freeset.Links[Block]
}

// Ptr is where the block begins.
func (b *Block) Ptr() device.Ptr { return b.ptr }

// Bytes is its size.
func (b *Block) Bytes() int64 { return b.bytes }

// Free reports whether it is free.
func (b *Block) Free() bool { return b.kind == free }

// Owner is who may have it, if it is free; nil: all.
func (b *Block) Owner() *Owner { return b.owner }

// movable is how many bytes of b, which is free, are in whole chunks.
func (b *Block) movable() int64 { return b.end - b.start }

// key orders blocks by region and address, in every run alike.
func (b *Block) key() uint64 {
	return uint64(b.region.number)<<44 | uint64(b.ptr-b.region.ptr)
}

// offset is where in its region b begins.
func (b *Block) offset() int64 { return int64(b.ptr - b.region.ptr) }

// at returns where in its region b begins and ends.
func (b *Block) at() (from, to int64) { return b.offset(), b.offset() + b.bytes }

// bare reports whether b has no memory of its own.
func (b *Block) bare() bool { return b.kind == hole || b.kind == lent }

// usable reports whether b is a free block that o may use.
func usable(b *Block, o *Owner) bool {
	return b != nil && b.kind == free && (b.owner == nil || b.owner == o)
}

// Owner is one of those for whom memory is freed: what it frees it may use again
// at once, and all others only when that is settled. Frees have numbers that rise.
type Owner struct {
	ID    int32 // for who lists blocks
	Ended bool  // what is freed for it from now on is idle

	free   [heaps]freeset.Set[Block]
	oldest uint64 // at most the lowest number in free
	newest uint64 // the highest that was ever in free
}

const none = math.MaxUint64

// Blocks is how many free blocks only o may have.
func (o *Owner) Blocks() (n int) {
	for i := range o.free {
		n += o.free[i].Len()
	}
	return n
}

// Newest is the highest number that was ever freed for o and not at once idle.
func (o *Owner) Newest() uint64 { return o.newest }

// Largest is the size of the largest of its free blocks.
func (o *Owner) Largest() (n int64) {
	for i := range o.free {
		n = max(n, largest(&o.free[i]))
	}
	return n
}
