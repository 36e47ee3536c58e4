package tierbench

import (
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/internal/tierdoc"
	"github.com/pinion-gpu/pinion/internal/workload"
)

// What the best schedule misses in one round is not what it misses in each: rounds with
// few misses are paid for by others.
func TestRoundsDiffer(t *testing.T) {
	order := trace(tierdoc.Zipf, 128)
	if one, eleven := workload.LeastMisses(order, 64, 1, 1), workload.LeastMisses(order, 64, 1, 11); one != 40 || eleven != 466 {
		t.Errorf("the best schedule brings %d arrays in during one round and %d during eleven", one, eleven)
	}
}

// Every trace uses only arrays that there are, the same in every run, and no
// schedule beats the best one.
func TestTraces(t *testing.T) {
	for _, access := range tierdoc.Accesses() {
		for _, n := range []int{1, 7, 64} {
			order := trace(access, n)
			if !slices.Equal(order, trace(access, n)) {
				t.Errorf("%s of %d differs from run to run", access, n)
			}
			if slices.Min(order) < 0 || slices.Max(order) >= n {
				t.Errorf("%s of %d uses %d to %d", access, n, slices.Min(order), slices.Max(order))
			}
			before := 4 * len(order)
			for slots := 1; slots <= n; slots++ {
				least, lru := workload.LeastMisses(order, slots, 1, 4), workload.LRUMisses(order, slots, 1, 4)
				if least > lru || slots == n && lru != 0 || least > before {
					t.Errorf("%s of %d in %d slots: the least is %d, LRU has %d", access, n, slots, least, lru)
				}
				before = least
			}
		}
	}
	if order := trace(tierdoc.Zipf, 64); len(order) < 256 {
		t.Errorf("%d uses", len(order))
	}
}
