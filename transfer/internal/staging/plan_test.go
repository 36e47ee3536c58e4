package staging

import (
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// Whatever the choice and the size, chunks are whole pages where a slot has
// room for them, never larger than a slot and never empty, and cutting by them
// takes every byte once.
func TestPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	page := pagemem.PageSize()
	for _, slot := range []int64{1, 4095, 8 << 10, 100_003, linkmodel.DefaultSlotBytes, 1 << 31} {
		for range 50 {
			c := linkmodel.Staging{Copiers: 1 + r.IntN(40), PastCaches: r.IntN(2) == 0}
			if r.IntN(10) == 0 {
				c.Copiers = linkmodel.MaxCopiers
			}
			for _, n := range []int64{1, page, minChunk, minChunk + 1, 1 + r.Int64N(1<<20), 1 + r.Int64N(1<<40), 1 << 47} {
				p := PlanOf(c, n, slot)
				if p.Staging != c || p.Most <= 0 || p.Most > slot || p.Least <= 0 || p.Least%page != 0 {
					t.Fatalf("%+v, %d bytes, slots of %d: %+v", c, n, slot, p)
				}
				if n/min(slot, goodChunk) > 10_000 {
					continue
				}
				k := &task{total: n, copiers: int64(p.Copiers), most: p.Most, least: min(p.Least, p.Most), phase: r.Int64N(3) * 1000}
				for next := int64(0); next < n; {
					offset, size := k.cut()
					if offset != next || size <= 0 || size > slot || size > n-offset || k.next != offset+size {
						t.Fatalf("%+v, %d bytes, slots of %d: %d bytes cut at %d, want some at %d", p, n, slot, size, offset, next)
					}
					next += size
					if next < n && slot >= 2*cutAlign && (k.phase+next)%cutAlign != 0 {
						t.Fatalf("%+v, %d bytes, slots of %d: %d bytes cut at %d end inside a page", p, n, slot, size, offset)
					}
				}
			}
		}
	}
}
