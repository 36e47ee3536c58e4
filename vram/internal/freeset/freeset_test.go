package freeset

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type block struct {
	bytes int64
	at    uint64
	links Links[block]
}

// TestFreeSet compares a set with a list, over random insertions and removals.
func TestFreeSet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s Set[block]
	var list []*block
	size := func() int64 {
		if r.IntN(2) == 0 {
			return (1 + r.Int64N(4000)) * Unit
		}
		return (1 + r.Int64N(1<<(1+r.IntN(24)))) * Unit
	}
	for i := range 20000 {
		if len(list) > 0 && r.IntN(2) == 0 || len(list) > 300 {
			k := r.IntN(len(list))
			s.Remove(&list[k].links)
			list = slices.Delete(list, k, k+1)
		} else {
			b := &block{bytes: size(), at: uint64(i)}
			s.Insert(&b.links, b, b.bytes, b.at)
			list = append(list, b)
		}
		if s.Len() != len(list) {
			t.Fatalf("%d blocks, want %d", s.Len(), len(list))
		}
		n := size() - r.Int64N(Unit)
		var want, largest *block
		for _, b := range list {
			if b.bytes >= n && (want == nil || b.bytes < want.bytes) {
				want = b
			}
			if largest == nil || b.bytes > largest.bytes {
				largest = b
			}
		}
		if got := s.Best(n); (got == nil) != (want == nil) || got != nil && (got.bytes != want.bytes || !slices.Contains(list, got)) {
			t.Fatalf("for %d bytes: %+v, want %+v", n, got, want)
		}
		if got := s.Largest(); (got == nil) != (largest == nil) || got != nil && got.bytes != largest.bytes {
			t.Fatalf("largest: %+v, want %+v", got, largest)
		}
		if i%100 == 0 {
			seen := map[*block]bool{}
			for _, b := range s.AtLeast(min(n, Binned)) {
				seen[b] = true
			}
			for _, b := range list {
				if seen[b] != (b.bytes >= min(n, Binned)) {
					t.Fatalf("%d bytes are listed as %d at least: %t", b.bytes, n, seen[b])
				}
			}
		}
	}
	for _, b := range s.AtLeast(0) {
		s.Remove(&b.links)
	}
	if s.Len() != 0 || s.sums != 0 || s.Best(1) != nil {
		t.Errorf("not empty: %+v", s)
	}
}
