package vram

import (
	"github.com/pinion-gpu/pinion/device"
)

// Small blocks and large ones are apart: a small one that lives long must not
// hold a large chunk.
const (
	smallHeap = iota
	largeHeap
	heaps // how many there are
)

// largestSmall is the size up to which blocks are small.
const largestSmall = 1 << 20

// heap is the blocks of one of the two kinds, in regions of address space.
// Pool.mu guards it.
type heap struct {
	pool    *Pool
	index   int // in Pool.heaps
	backing backing
	regions []*region
	idle    freeSet // with memory, and nobody uses it
	holes   freeSet // without
	bytes   int64   // free blocks, idle or not
}

// region is a reservation of address space, or a segment.
type region struct {
	ptr   device.Ptr
	bytes int64
	first *block         // by address
	pages []device.Chunk // behind the addresses, by chunk size; 0: none. nil for a segment
}

// set returns the set that b is in, or is to be in.
func (h *heap) set(b *block) *freeSet {
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
	h.set(b).remove(b)
	if b.kind == free {
		h.bytes -= b.bytes
		if b.owner == nil {
			h.backing.idle(b, -1)
		}
	}
}

// put puts a free block or a hole into its set.
func (h *heap) put(b *block) {
	h.set(b).insert(b)
	if b.kind == free {
		h.bytes += b.bytes
		if o := b.owner; o == nil {
			h.backing.idle(b, 1)
		} else {
			o.newest, o.oldest = max(o.newest, b.seq), min(o.oldest, b.seq)
		}
	}
}

// give makes b, which is in no set, free for its owner, or for all if it has
// none. Neighbours that are free for the same become one block with it.
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

// cut makes two blocks of b, which is in no set: b keeps the first n bytes. The
// other is like it and in no set either.
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

// fit takes n bytes for o out of the smallest free block that has them, or
// returns nil.
func (h *heap) fit(n int64, o *owner) *block {
	b := h.idle.best(n)
	if o != nil {
		if own := o.free[h.index].best(n); own != nil && (b == nil || own.bytes <= b.bytes) {
			b = own
		}
	}
	if b == nil {
		return nil
	}
	h.unset(b)
	return h.occupy(b, n, o)
}

// occupy takes the first n bytes of b, which is free and in no set. The rest
// goes back.
func (h *heap) occupy(b *block, n int64, o *owner) *block {
	var rest *block
	if b.bytes > n {
		rest = h.cut(b, n)
	}
	b.kind, b.owner = taken, o
	if rest != nil {
		h.merge(rest)
	}
	return b
}

// add makes a region with one block in it, of the kind given.
func (h *heap) add(ptr device.Ptr, bytes int64, k kind) (*region, *block) {
	r := &region{ptr: ptr, bytes: bytes}
	b := h.pool.newBlock()
	b.region, b.ptr, b.bytes, b.kind = r, ptr, bytes, k
	b.owner, b.seq, b.prev, b.next = nil, 0, nil, nil
	r.first = b
	h.regions = append(h.regions, r)
	return r, b
}

// backing is how a heap comes by memory.
type backing interface {
	// grow gets memory for n bytes of o's, and takes them. It fails with
	// device.ErrOutOfMemory when the device has none, or errBudget when the
	// pool may not have more than most bytes.
	grow(n int64, o *owner, most int64) (*block, error)

	// trim gives idle memory back to the device, and returns how much.
	trim() (int64, error)

	// idle is told of a block that becomes idle (+1) or stops to be (-1).
	idle(b *block, change int64)

	// spare is how many of b's bytes could be used at another address.
	spare(b *block) int64

	// loose is how many bytes are nowhere, and can go anywhere.
	loose() int64

	// close gives everything back. Nothing may be in use.
	close() error
}
