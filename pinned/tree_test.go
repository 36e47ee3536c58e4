package pinned

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The tree against a sorted slice.
func TestTreeRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var tree tree
	var model []*block
	for step := range 20_000 {
		if len(model) == 0 || rng.IntN(100) < 52 {
			b := &block{size: int64(1 + rng.IntN(40)), addr: uintptr(step)}
			tree.insert(b)
			model = append(model, b)
			slices.SortFunc(model, func(a, b *block) int {
				if a.before(b) {
					return -1
				}
				return 1
			})
		} else {
			i := rng.IntN(len(model))
			tree.remove(model[i])
			model = slices.Delete(model, i, i+1)
		}
		want := int64(rng.IntN(45))
		var best *block
		if i := slices.IndexFunc(model, func(b *block) bool { return b.size >= want }); i >= 0 {
			best = model[i]
		}
		if got := tree.best(want); got != best {
			t.Fatalf("step %d: best(%d) = %+v, want %+v", step, want, got, best)
		}
		largest := int64(0)
		if n := len(model); n > 0 {
			largest = model[n-1].size
		}
		if got := tree.largest(); got != largest {
			t.Fatalf("step %d: largest %d, want %d", step, got, largest)
		}
		if step%100 == 0 {
			count := 0
			if err := tree.check(func(*block) error { count++; return nil }); err != nil || count != len(model) {
				t.Fatalf("step %d: %d blocks of %d: %v", step, count, len(model), err)
			}
		}
	}
}
