package vram

import (
	"testing"

	"github.com/pinion-gpu/pinion/vram/internal/space"
)

// verify checks what must be true of a pool at any moment, and returns how many
// places those chunks have that have several.
func (p *Pool) verify(t testing.TB) (stitched int) {
	t.Helper()
	p.freeze(func() {
		var live, pending int64
		for i, b := range p.blocks {
			if b.index != i || b.mem == nil {
				continue
			}
			if b.mem.Tag != i || b.mem.Free() || b.mem.Ptr() != b.ptr || b.mem.Bytes() != b.bytes || b.live() == b.pending {
				t.Errorf("%d bytes at %#x: live %t, pending %t, memory %+v", b.bytes, uint64(b.ptr), b.live(), b.pending, b.mem)
			}
			if b.pending {
				pending += b.bytes
			} else {
				live += b.bytes
			}
		}
		s := p.stats()
		if s.Allocated.Current != live || s.Active.Current != live+pending {
			t.Errorf("allocated %d, active %d; want %d, %d", s.Allocated.Current, s.Active.Current, live, live+pending)
		}
		if s.Fragmented < 0 || s.Fragmented > s.Free || s.LargestFree > s.Free {
			t.Errorf("%d of %d bytes fragmented, largest block %d", s.Fragmented, s.Free, s.LargestFree)
		}
		if p.space == nil {
			return
		}
		var owners []*space.Owner
		p.owners.Range(func(_, x any) bool {
			owners = append(owners, x.(*owner).inSpace())
			return true
		})
		var err error
		if stitched, err = p.space.Check(owners...); err != nil {
			t.Error(err)
		}
		if used := p.space.Used(); used != live+pending {
			t.Errorf("%d bytes are used, want %d", used, live+pending)
		}
	})
	return stitched
}
