package vram

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/device"
)

// TestFreeSet compares a set with a list, over random insertions and removals.
func TestFreeSet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s freeSet
	var list []*block
	size := func() int64 {
		if r.IntN(2) == 0 {
			return (1 + r.Int64N(4000)) * unit
		}
		return (1 + r.Int64N(1<<(1+r.IntN(24)))) * unit
	}
	for i := range 20000 {
		if len(list) > 0 && r.IntN(2) == 0 || len(list) > 300 {
			k := r.IntN(len(list))
			s.remove(list[k])
			list = slices.Delete(list, k, k+1)
		} else {
			b := &block{bytes: size(), ptr: device.Ptr(i * unit)}
			s.insert(b)
			list = append(list, b)
		}
		if s.count != len(list) {
			t.Fatalf("%d blocks, want %d", s.count, len(list))
		}
		n := size() - r.Int64N(unit)
		var want, largest *block
		for _, b := range list {
			if b.bytes >= n && (want == nil || b.bytes < want.bytes) {
				want = b
			}
			if largest == nil || b.bytes > largest.bytes {
				largest = b
			}
		}
		if got := s.best(n); (got == nil) != (want == nil) || got != nil && (got.bytes != want.bytes || !slices.Contains(list, got)) {
			t.Fatalf("for %d bytes: %+v, want %+v", n, got, want)
		}
		if got := s.largest(); (got == nil) != (largest == nil) || got != nil && got.bytes != largest.bytes {
			t.Fatalf("largest: %+v, want %+v", got, largest)
		}
		if i%100 == 0 {
			seen := map[*block]bool{}
			for _, b := range s.blocks(nil) {
				seen[b] = true
			}
			if len(seen) != len(list) {
				t.Fatalf("all: %d of %d", len(seen), len(list))
			}
		}
	}
	for _, b := range s.blocks(nil) {
		s.remove(b)
	}
	if s.count != 0 || s.sums != 0 || s.best(1) != nil {
		t.Errorf("not empty: %+v", s)
	}
}
