package space

import (
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram/internal/freeset"
)

// Blocks of different sizes are kept apart: a small block that lives long must not
// hold a large chunk.
const (
	smallHeap = iota
	mediumHeap
	largeHeap
	heaps // how many there are
)

// LargestSmall and largestMedium are the sizes of the largest blocks of a kind.
const (
	LargestSmall  = 1 << 20
	largestMedium = 32 << 20
)

// heap holds the blocks of one of these kinds, in regions of address space.
type heap struct {
	space       *Space
	index       int // in Space.heaps
	backing     backing
	regions     []*region
	idle        freeset.Set[Block] // free blocks that any stream may have
	holes       freeset.Set[Block] // addresses without memory
	bytes       int64              // of free blocks, idle or not
	movable     int64              // bytes of them that could be mapped elsewhere, or given back
	idleMovable int64              // the part of these that is idle
	unmapped    int64              // bytes of memory without addresses
	made        int                // regions that were ever added
}

// region is a reservation of address space, or a segment.
type region struct {
	ptr    device.Ptr
	bytes  int64
	first  *Block     // by address
	number int        // in order of creation, from 0 on
	pages  []*mapping // behind the addresses, by the unit of chunks, which is 1<<shift; nil: none. None for a segment
	shift  uint8
}

// page is what is behind an address.
func (r *region) page(at int64) *mapping { return r.pages[at>>r.shift] }

// set returns the set that b belongs in.
func (h *heap) set(b *Block) *freeset.Set[Block] {
	switch {
	case b.kind == hole:
		return &h.holes
	case b.owner == nil:
		return &h.idle
	}
	return &b.owner.free[h.index]
}

// unset takes a free block or a hole out of its set.
func (h *heap) unset(b *Block) {
	h.set(b).Remove(&b.set)
	if b.kind == free {
		h.count(b, -1)
	}
}

// put puts a free block or a hole into its set.
func (h *heap) put(b *Block) {
	h.set(b).Insert(&b.set, b, b.bytes, b.key())
	if b.kind == free {
		b.start, b.end = h.backing.span(b)
		h.count(b, 1)
		if o := b.owner; o != nil {
			o.newest, o.oldest = max(o.newest, b.number), min(o.oldest, b.number)
		}
	}
}

// count notes that b becomes free (+1), or is free no more (-1).
func (h *heap) count(b *Block, change int64) {
	h.bytes += change * b.bytes
	h.movable += change * b.movable()
	if b.owner == nil {
		h.idleMovable += change * b.movable()
		h.backing.count(b, change)
	}
}

// give frees b, which is in no set, for its owner, or for all if it has none. It
// is joined with neighbours that are free for the same owner.
func (h *heap) give(b *Block) *Block {
	b.kind = free
	if b.owner != nil && b.owner.Ended {
		b.owner, b.number = nil, 0
	}
	return h.merge(b)
}

// merge joins b, which is in no set, with neighbours like it, and puts it into
// its set.
func (h *heap) merge(b *Block) *Block {
	for _, n := range [2]*Block{b.prev, b.next} {
		if n == nil || n.kind != b.kind || n.owner != b.owner {
			continue
		}
		h.unset(n)
		b.number = max(b.number, n.number)
		if n == b.prev {
			n, b = b, n // the lower one stays
			b.number = n.number
		}
		b.bytes += n.bytes
		h.unlink(n)
	}
	h.put(b)
	return b
}

// unlink takes b out of its region, whose other blocks then cover it.
func (h *heap) unlink(b *Block) {
	if b.prev != nil {
		b.prev.next = b.next
	} else {
		b.region.first = b.next
	}
	if b.next != nil {
		b.next.prev = b.prev
	}
	h.space.retire(b)
}

// cut splits b, which is in no set: b keeps the first n bytes. The rest, which cut
// returns, is of the same kind and in no set either.
func (h *heap) cut(b *Block, n int64) *Block {
	rest := h.space.newBlock()
	rest.region, rest.ptr, rest.bytes = b.region, b.ptr.Add(n), b.bytes-n
	rest.kind, rest.owner, rest.number = b.kind, b.owner, b.number
	rest.prev, rest.next = b, b.next
	if b.next != nil {
		b.next.prev = rest
	}
	b.next, b.bytes = rest, n
	return rest
}

// best returns the smallest free block of at least n bytes that o may use, or nil.
func (h *heap) best(n int64, o *Owner) *Block {
	b := h.idle.Best(n)
	if o != nil {
		if own := o.free[h.index].Best(n); own != nil && (b == nil || own.bytes <= b.bytes) {
			b = own
		}
	}
	return b
}

// occupy takes the first n bytes of b, which is free and in no set, or the last
// ones. The rest is freed.
func (h *heap) occupy(b *Block, n int64, last bool) *Block {
	var rest *Block
	if b.bytes > n {
		if last {
			rest = b
			b = h.cut(b, b.bytes-n)
		} else {
			rest = h.cut(b, n)
		}
	}
	b.kind, b.owner = taken, nil
	if rest != nil {
		h.merge(rest)
	}
	return b
}

// add adds a region with one block in it, of kind k.
func (h *heap) add(ptr device.Ptr, bytes int64, k kind) (*region, *Block) {
	r := &region{ptr: ptr, bytes: bytes, number: h.made}
	h.made++
	b := h.space.newBlock()
	b.region, b.ptr, b.bytes, b.kind = r, ptr, bytes, k
	b.owner, b.number, b.prev, b.next = nil, 0, nil, nil
	r.first = b
	h.regions = append(h.regions, r)
	return r, b
}

// backing supplies a heap with memory.
type backing interface {
	grow(n int64, o *Owner, most int64) (*Block, error)
	scarce(n int64) bool
	squeeze(n int64, o *Owner) (*Block, error)

	// trim returns idle memory to the device, and reports how much.
	trim() (int64, error)

	// span returns where in its region that begins and ends which could be mapped
	// elsewhere, or given back, of a free block.
	span(b *Block) (start, end int64)

	// count notes that a block becomes idle (+1) or is idle no more (-1).
	count(b *Block, change int64)

	// fromEnd reports whether n bytes are better taken from the end of b than
	// from its start.
	fromEnd(b *Block, n int64) bool

	// divides reports whether a chunk has to be divided before n bytes are taken
	// from the start of b, which is free, or from its end.
	divides(b *Block, n int64, last bool) bool

	// divide divides that chunk. The block is idle and in its set, and divide
	// returns it; nil if that failed and b is not what it was.
	divide(b *Block, n int64, last bool) *Block

	// close returns everything to the device. Nothing may be in use.
	close() error
}
