package space

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/vram/internal/freeset"
)

// Check visits everything and returns what is not as it must be at any moment
// between two calls. The owners are all those for whom anything is free. It also
// returns how many places those chunks have that are mapped at several. It is for
// tests.
func (s *Space) Check(owners ...*Owner) (stitched int, err error) {
	var c checker
	var taken, reserved int64
	for _, h := range s.heaps {
		c.heap(h, owners)
		taken += c.taken
		reserved += c.mapped + h.unmapped
	}
	if got := s.Ledger.Current(); got != reserved {
		c.errorf("%d bytes reserved, want %d", got, reserved)
	}
	if got := s.Used(); got != taken {
		c.errorf("%d bytes used, want %d", got, taken)
	}
	return c.stitched, errors.Join(c.errs...)
}

// checker checks one heap after the other.
type checker struct {
	errs     []error
	stitched int

	// Of the heap.
	sets          map[*Block]bool   // what is in its sets, and was not met yet
	users         map[*chunk][]byte // of a chunk at several places, by Unit: how many blocks have its memory
	taken, mapped int64
}

func (c *checker) errorf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func (c *checker) heap(h *heap, owners []*Owner) {
	c.sets, c.users, c.taken, c.mapped = map[*Block]bool{}, map[*chunk][]byte{}, 0, 0
	c.set(&h.idle, free, nil)
	c.set(&h.holes, hole, nil)
	for _, o := range owners {
		c.set(&o.free[h.index], free, o)
	}
	var bytes, movable, idle int64
	chunks, _ := h.backing.(*chunked)
	for _, r := range h.regions {
		at := r.ptr
		var last *Block
		for b := r.first; b != nil; b = b.next {
			if b.ptr != at || b.prev != last || b.bytes <= 0 || b.bytes%Unit != 0 || b.region != r {
				c.errorf("block of %d bytes at %#x, want one at %#x", b.bytes, uint64(b.ptr), uint64(at))
				return
			}
			if last != nil && last.kind == b.kind && (b.kind == hole || b.kind == free && last.owner == b.owner) {
				c.errorf("two neighbours of kind %d at %#x", b.kind, uint64(b.ptr))
			}
			if (b.kind == free || b.kind == hole) != c.sets[b] {
				c.errorf("%#x of kind %d: in a set %t", uint64(b.ptr), b.kind, c.sets[b])
			}
			delete(c.sets, b)
			if b.kind != free && b.owner != nil {
				c.errorf("%#x of kind %d has an owner", uint64(b.ptr), b.kind)
			}
			if chunks != nil {
				c.pages(chunks, b)
			}
			switch b.kind {
			case taken:
				c.taken += b.bytes
			case free:
				if start, end := h.backing.span(b); start != b.start || end != b.end {
					c.errorf("whole chunks of %#x from %d to %d, want %d and %d", uint64(b.ptr), b.start, b.end, start, end)
				}
				bytes += b.bytes
				movable += b.movable()
				if b.owner == nil {
					idle += b.movable()
				}
			}
			at, last = b.ptr.Add(b.bytes), b
		}
		if end := r.ptr.Add(r.bytes); at != end {
			c.errorf("region ends at %#x, want %#x", uint64(at), uint64(end))
		}
		if chunks == nil {
			c.mapped += r.bytes
		}
	}
	for b := range c.sets {
		c.errorf("%#x of kind %d is in a set, but in no region", uint64(b.ptr), b.kind)
	}
	if h.bytes != bytes || h.movable != movable || h.idleMovable != idle {
		c.errorf("%d bytes free, %d movable, %d of them idle; want %d, %d, %d", h.bytes, h.movable, h.idleMovable, bytes, movable, idle)
	}
	if chunks != nil {
		c.chunks(chunks)
	}
}

// set notes what is in a set, in which all are of a kind and for one owner.
func (c *checker) set(set *freeset.Set[Block], k kind, o *Owner) {
	for _, b := range set.AtLeast(0) {
		if b.kind != k || b.owner != o || c.sets[b] {
			c.errorf("%#x of kind %d in a set of kind %d", uint64(b.ptr), b.kind, k)
		}
		c.sets[b] = true
	}
}

// pages checks that a block has memory behind all of it, or none.
func (c *checker) pages(chunks *chunked, b *Block) {
	from, to := b.at()
	page := func(at int64) *mapping {
		if i := at / chunks.unit; i < int64(len(b.region.pages)) {
			return b.region.pages[i]
		}
		return nil
	}
	for at := from &^ (chunks.unit - 1); at < to; at += chunks.unit {
		if there := page(at) != nil; there != (b.kind != hole) {
			c.errorf("block of kind %d at %#x: memory at %d of the region: %t", b.kind, uint64(b.ptr), at, there)
			return
		}
	}
	for at := from; b.kind != hole && at < to; at += Unit {
		m := page(at)
		if len(m.places) == 1 {
			if b.kind == lent {
				c.errorf("lent %#x is of a chunk at one place", uint64(b.ptr))
			}
			at = min(to, m.end()) - Unit
			continue
		}
		if c.users[m.chunk] == nil {
			c.users[m.chunk] = make([]byte, m.bytes/Unit)
		}
		if b.kind != lent {
			c.users[m.chunk][(at-m.at)/Unit]++
		} else if to > m.end() {
			c.errorf("lent %#x is in several mappings", uint64(b.ptr))
		}
	}
}

// chunks checks the chunks of a heap.
func (c *checker) chunks(chunks *chunked) {
	for x, list := range c.users {
		if i := slices.IndexFunc(list, func(n byte) bool { return n != 1 }); i >= 0 {
			c.errorf("chunk of %d bytes: %d blocks use byte %d", x.bytes, list[i], i*Unit)
		}
	}
	seen := map[*chunk]bool{}
	stale := int64(0)
	for _, r := range chunks.heap.regions {
		last := (*mapping)(nil)
		for i, m := range r.pages {
			if m == nil {
				continue
			}
			if at := int64(i) * chunks.unit; at < m.at || at >= m.end() {
				c.errorf("chunk of %d bytes at %d found at %d", m.bytes, m.at, at)
			}
			if m != last && m.stale {
				stale += m.bytes
				if m.lent == nil || m.lent.offset() != m.at || m.lent.bytes != m.bytes || len(m.places) == 1 {
					c.errorf("stale mapping of %d bytes at %d is not lent, or the only one", m.bytes, m.at)
				}
			} else if m != last && len(m.places) > 1 && slices.ContainsFunc(m.places, func(x *mapping) bool { return x != m && !x.stale }) {
				c.stitched++
			}
			if last = m; !seen[m.chunk] {
				seen[m.chunk] = true
				c.mapped += m.bytes
			}
		}
	}
	if stale != chunks.staleBytes {
		c.errorf("%d bytes of mappings are stale, want %d", chunks.staleBytes, stale)
	}
	if sum := total(chunks.unmapped); chunks.heap.unmapped != sum {
		c.errorf("%d bytes in unmapped chunks, want %d", chunks.heap.unmapped, sum)
	}
}
