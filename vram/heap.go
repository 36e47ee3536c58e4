package vram

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

// largestSmall and largestMedium are the sizes of the largest blocks of a kind.
const (
	largestSmall  = 1 << 20
	largestMedium = 32 << 20
)

// heap holds the blocks of one of these kinds, in regions of address space.
// Pool.mu guards it.
type heap struct {
	pool    *Pool
	index   int // in Pool.heaps
	backing backing
	regions []*region
	idle    freeset.Set[block] // free blocks that any stream may have
	holes   freeset.Set[block] // addresses without memory
	bytes   int64              // of free blocks, idle or not
	made    int                // regions that were ever added
}

// region is a reservation of address space, or a segment.
type region struct {
	ptr    device.Ptr
	bytes  int64
	first  *block     // by address
	number int        // in order of creation, from 0 on
	pages  []*mapping // behind the addresses, by the unit of chunks; nil: none. None for a segment
}

// set returns the set that b belongs in.
func (h *heap) set(b *block) *freeset.Set[block] {
	switch {
	case b.kind == hole:
		return &h.holes
	case b.owner == nil:
		return &h.idle
	}
	return &b.owner.free[h.index]
}

// unset takes a free block or a hole out of its set.
func (h *heap) unset(b *block) {
	h.set(b).Remove(&b.set)
	if b.kind == free {
		h.bytes -= b.bytes
		if b.owner == nil {
			h.backing.idle(b, -1)
		}
	}
}

// put puts a free block or a hole into its set.
func (h *heap) put(b *block) {
	h.set(b).Insert(&b.set, b, b.bytes, b.key())
	if b.kind == free {
		h.bytes += b.bytes
		if o := b.owner; o == nil {
			h.backing.idle(b, 1)
		} else {
			o.newest, o.oldest = max(o.newest, b.seq), min(o.oldest, b.seq)
		}
	}
}

// give frees b, which is in no set, for its owner, or for all if it has none. It
// is joined with neighbours that are free for the same owner.
func (h *heap) give(b *block) *block {
	b.kind = free
	if b.owner != nil && b.owner.ended {
		b.owner, b.seq = nil, 0
	}
	return h.merge(b)
}

// merge joins b, which is in no set, with neighbours like it, and puts it into
// its set.
func (h *heap) merge(b *block) *block {
	for _, n := range [2]*block{b.prev, b.next} {
		if n == nil || n.kind != b.kind || n.owner != b.owner {
			continue
		}
		h.unset(n)
		b.seq = max(b.seq, n.seq)
		if n == b.prev {
			n, b = b, n // the lower one stays
			b.seq = n.seq
		}
		b.bytes += n.bytes
		h.unlink(n)
	}
	h.put(b)
	return b
}

// unlink takes b out of its region, whose other blocks then cover it.
func (h *heap) unlink(b *block) {
	if b.prev != nil {
		b.prev.next = b.next
	} else {
		b.region.first = b.next
	}
	if b.next != nil {
		b.next.prev = b.prev
	}
	h.pool.retire(b)
}

// cut splits b, which is in no set: b keeps the first n bytes. The rest, which cut
// returns, is of the same kind and in no set either.
func (h *heap) cut(b *block, n int64) *block {
	rest := h.pool.newBlock()
	rest.region, rest.ptr, rest.bytes = b.region, b.ptr.Add(n), b.bytes-n
	rest.kind, rest.owner, rest.seq = b.kind, b.owner, b.seq
	rest.prev, rest.next = b, b.next
	if b.next != nil {
		b.next.prev = rest
	}
	b.next, b.bytes = rest, n
	return rest
}

// fit takes n bytes for o from the smallest free block that is large enough, or
// returns nil.
func (h *heap) fit(n int64, o *owner) *block {
	for range 2 {
		b := h.best(n, o)
		if b == nil {
			return nil
		}
		last := h.backing.fromEnd(b, n)
		if b = h.backing.divide(b, n, last); b != nil {
			h.unset(b)
			return h.occupy(b, n, o, last)
		}
	}
	return nil
}

// best returns the smallest free block of at least n bytes that o may use, or nil.
func (h *heap) best(n int64, o *owner) *block {
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
func (h *heap) occupy(b *block, n int64, o *owner, last bool) *block {
	var rest *block
	if b.bytes > n {
		if last {
			rest = b
			b = h.cut(b, b.bytes-n)
		} else {
			rest = h.cut(b, n)
		}
	}
	b.kind, b.owner = taken, o
	if rest != nil {
		h.merge(rest)
	}
	return b
}

// add adds a region with one block in it, of kind k.
func (h *heap) add(ptr device.Ptr, bytes int64, k kind) (*region, *block) {
	r := &region{ptr: ptr, bytes: bytes, number: h.made}
	h.made++
	b := h.pool.newBlock()
	b.region, b.ptr, b.bytes, b.kind = r, ptr, bytes, k
	b.owner, b.seq, b.prev, b.next = nil, 0, nil, nil
	r.first = b
	h.regions = append(h.regions, r)
	return r, b
}

// backing supplies a heap with memory.
type backing interface {
	// grow returns a block of n bytes for o in new memory. It fails with
	// device.ErrOutOfMemory if the device has none, or with errBudget if the
	// pool would have more than most bytes.
	grow(n int64, o *owner, most int64) (*block, error)

	// squeeze returns a block of n bytes for o that leaves as little as possible
	// of what nobody can use, if memory is so short that this pays; nil if not.
	squeeze(n int64, o *owner) (*block, error)

	// trim returns idle memory to the device, and reports how much.
	trim() (int64, error)

	// idle notes that a block becomes idle (+1) or is idle no more (-1).
	idle(b *block, change int64)

	// fromEnd reports whether n bytes are better taken from the end of b than
	// from its start.
	fromEnd(b *block, n int64) bool

	// divide prepares b, which is free and in its set, for n bytes to be taken
	// from its start or its end, and returns it. It returns nil if that failed
	// and b is not what it was.
	divide(b *block, n int64, last bool) *block

	// movable is how many of b's bytes could be mapped at another address.
	movable(b *block) int64

	// unmappedBytes is how much memory of the pool is mapped nowhere.
	unmappedBytes() int64

	// close returns everything to the device. Nothing may be in use.
	close() error
}
