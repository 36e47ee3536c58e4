package tierbench

import (
	"slices"
	"testing"
)

// Misses are those that can be counted by hand.
func TestMisses(t *testing.T) {
	for _, c := range []struct {
		uses       []int
		slots      int
		least, lru int
	}{
		{[]int{0, 1, 2, 3}, 4, 0, 0},
		{[]int{0, 1, 2, 3}, 1, 4, 4},
		{[]int{0, 1, 2}, 2, 1, 3},       // every second use of the best schedule hits, from round to round
		{[]int{0, 0, 1, 1}, 1, 2, 2},    // each array comes in once
		{[]int{0, 1, 0, 2}, 2, 2, 2},    // 0 stays
		{[]int{0, 1, 2, 0, 1}, 3, 0, 0}, // all stay
	} {
		if got := leastMisses(c.uses, c.slots); got != c.least {
			t.Errorf("%v in %d slots: the least is %d, want %d", c.uses, c.slots, got, c.least)
		}
		if got := lruMisses(c.uses, c.slots); got != c.lru {
			t.Errorf("%v in %d slots: LRU has %d, want %d", c.uses, c.slots, got, c.lru)
		}
	}
}

// Every trace uses only arrays that there are, the same in every run, and no
// schedule beats the best one.
func TestTraces(t *testing.T) {
	for _, access := range []string{turn, random, zipf} {
		for _, n := range []int{1, 7, 64} {
			uses := trace(access, n)
			if !slices.Equal(uses, trace(access, n)) {
				t.Errorf("%s of %d differs from run to run", access, n)
			}
			if slices.Min(uses) < 0 || slices.Max(uses) >= n {
				t.Errorf("%s of %d uses %d to %d", access, n, slices.Min(uses), slices.Max(uses))
			}
			before := len(uses)
			for slots := 1; slots <= n; slots++ {
				least, lru := leastMisses(uses, slots), lruMisses(uses, slots)
				if least > lru || slots == n && lru != 0 || least > before+1 {
					t.Errorf("%s of %d in %d slots: the least is %d, LRU has %d", access, n, slots, least, lru)
				}
				before = least
			}
		}
	}
	if uses := trace(zipf, 64); len(uses) < 256 {
		t.Errorf("%d uses", len(uses))
	}
}
