package vram

import (
	"github.com/pinion-gpu/pinion/vram/internal/freeset"
	"slices"
	"testing"
)

// verify checks what must be true of a pool at any moment.
func (p *Pool) verify(t testing.TB) {
	t.Helper()
	p.freeze(func() {
		var taken_, free_, mapped, pending_ int64
		for i, h := range p.heaps {
			if h.backing == nil {
				continue
			}
			inSets := map[*block]bool{}
			collect := func(set *freeset.Set[block], k kind, o *owner) {
				for _, b := range set.AtLeast(0) {
					if b.kind != k || k == free && b.owner != o || inSets[b] {
						t.Errorf("%#x of kind %d in the set of kind %d", uint64(b.ptr), b.kind, k)
					}
					inSets[b] = true
				}
			}
			collect(&h.idle, free, nil)
			collect(&h.holes, hole, nil)
			p.owners.Range(func(_, x any) bool {
				collect(&x.(*owner).free[i], free, x.(*owner))
				return true
			})
			var whole, freeBytes int64
			chunks := map[*chunk]bool{}
			users := map[*chunk][]byte{} // by the unit of blocks: how many blocks have its memory
			c, _ := h.backing.(*chunked)
			for _, r := range h.regions {
				at := r.ptr
				var last *block
				for b := r.first; b != nil; b = b.next {
					if b.ptr != at || b.prev != last || b.bytes <= 0 || b.bytes%unit != 0 || b.region != r {
						t.Fatalf("block of %d bytes at %#x, want one at %#x", b.bytes, uint64(b.ptr), uint64(at))
					}
					if last != nil && last.kind == b.kind && (b.kind == hole || b.kind == free && last.owner == b.owner) {
						t.Errorf("two neighbours of kind %d at %#x", b.kind, uint64(b.ptr))
					}
					if (b.kind == free || b.kind == hole) != inSets[b] {
						t.Errorf("%#x of kind %d: in a set %t", uint64(b.ptr), b.kind, inSets[b])
					}
					delete(inSets, b)
					switch b.kind {
					case taken:
						taken_ += b.bytes
						if !b.live() {
							t.Errorf("%#x is neither live nor free", uint64(b.ptr))
						}
					case pending:
						pending_ += b.bytes
					case free:
						free_ += b.bytes
						freeBytes += b.bytes
						if c != nil && b.owner == nil {
							start, end := c.span(b)
							whole += end - start
						}
					}
					if c != nil {
						p.verifyPages(t, c, b, users)
					}
					at, last = b.end(), b
				}
				if at != r.ptr.Add(r.bytes) {
					t.Errorf("region ends at %#x, want %#x", uint64(at), uint64(r.ptr.Add(r.bytes)))
				}
				for i, x := range r.pages {
					if x == nil {
						continue
					}
					if !chunks[x.chunk] {
						chunks[x.chunk] = true
						mapped += x.bytes
					}
					if at := int64(i) * c.unit; at < x.at || at >= x.at+x.bytes {
						t.Errorf("chunk of %d bytes at %d found at %d", x.bytes, x.at, at)
					}
				}
				if c == nil {
					mapped += r.bytes
				}
			}
			for x, list := range users {
				if i := slices.IndexFunc(list, func(n byte) bool { return n != 1 }); i >= 0 {
					t.Errorf("chunk of %d bytes: %d blocks use byte %d", x.bytes, list[i], i*unit)
				}
			}
			if len(inSets) > 0 {
				t.Errorf("%d blocks in sets, but in no region", len(inSets))
			}
			if h.bytes != freeBytes {
				t.Errorf("free bytes %d, want %d", h.bytes, freeBytes)
			}
			if c != nil {
				if c.idleTotal != whole {
					t.Errorf("%d bytes in idle chunks, want %d", c.idleTotal, whole)
				}
				var sum int64
				for _, x := range c.unmapped {
					sum += x.bytes
				}
				if c.unmappedTotal != sum {
					t.Errorf("%d bytes in unmapped chunks, want %d", c.unmappedTotal, sum)
				}
				mapped += c.unmappedBytes()
				free_ += c.unmappedBytes()
			}
		}
		s := p.stats()
		if s.Reserved.Current != mapped || s.Allocated.Current != taken_ || s.Free != free_ || s.Active.Current != taken_+pending_ {
			t.Errorf("reserved %d, allocated %d, free %d, active %d; want %d, %d, %d, %d", s.Reserved.Current, s.Allocated.Current,
				s.Free, s.Active.Current, mapped, taken_, free_, taken_+pending_)
		}
		if s.Fragmented < 0 || s.Fragmented > s.Free || s.LargestFree > s.Free {
			t.Errorf("%d of %d bytes fragmented, largest block %d", s.Fragmented, s.Free, s.LargestFree)
		}
	})
}

// verifyPages checks that a block has memory behind all of it, or none.
func (p *Pool) verifyPages(t testing.TB, c *chunked, b *block, users map[*chunk][]byte) {
	t.Helper()
	from, to := b.at()
	for at := from; b.kind != hole && at < to; at += unit {
		if i := at / c.unit; i < int64(len(b.region.pages)) && b.region.pages[i] != nil {
			m := b.region.pages[i]
			if len(m.places) == 1 {
				if b.kind == lent {
					t.Errorf("lent %#x is of a chunk at one place", uint64(b.ptr))
				}
				at = min(to, m.end()) - unit
				continue
			}
			if users[m.chunk] == nil {
				users[m.chunk] = make([]byte, m.bytes/unit)
			}
			if b.kind != lent {
				users[m.chunk][(at-m.at)/unit]++
			} else if to > m.end() {
				t.Errorf("lent %#x is in several mappings", uint64(b.ptr))
			}
		}
	}
	first := int64(b.ptr-b.region.ptr) / c.unit
	last := (int64(b.end()-b.region.ptr) + c.unit - 1) / c.unit
	for i := first; i < last; i++ {
		if there := i < int64(len(b.region.pages)) && b.region.pages[i] != nil; there != (b.kind != hole) {
			t.Errorf("block of kind %d at %#x: memory at page %d: %t", b.kind, uint64(b.ptr), i, there)
		}
	}
}
