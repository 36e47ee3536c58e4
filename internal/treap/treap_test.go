package treap

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

type block struct {
	size    int64
	address uint64
	node    Node[block]
}

func (b *block) addTo(s *Set[block]) { s.Insert(&b.node, b, b.size, b.address) }

func compare(a, b *block) int {
	return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.address, b.address))
}

// TestRandom compares a set with a sorted slice, over random insertions and
// removals.
func TestRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var s Set[block]
	var model []*block
	for step := range 20_000 {
		if len(model) == 0 || rng.IntN(100) < 52 {
			b := &block{size: int64(1 + rng.IntN(40)), address: uint64(step)}
			b.addTo(&s)
			i, _ := slices.BinarySearchFunc(model, b, compare)
			model = slices.Insert(model, i, b)
		} else {
			i := rng.IntN(len(model))
			s.Remove(&model[i].node)
			model = slices.Delete(model, i, i+1)
		}
		size := int64(rng.IntN(45))
		var fit, largest *block
		if i := slices.IndexFunc(model, func(b *block) bool { return b.size >= size }); i >= 0 {
			fit = model[i]
		}
		if n := len(model); n > 0 {
			largest = model[n-1]
		}
		if got := s.AtLeast(size); got != fit {
			t.Fatalf("step %d: at least %d: %+v, want %+v", step, size, got, fit)
		}
		if got := s.Largest(); got != largest {
			t.Fatalf("step %d: largest %+v, want %+v", step, got, largest)
		}
		if step%100 == 0 {
			check(t, s.root, 0)
			all := slices.Collect(s.Descending())
			slices.Reverse(all)
			if !slices.Equal(all, model) {
				t.Fatalf("step %d: %d blocks of %d, or out of order", step, len(all), len(model))
			}
		}
	}
	for _, b := range model {
		s.Remove(&b.node)
	}
	if s.root != nil || s.AtLeast(0) != nil || s.Largest() != nil {
		t.Error("not empty")
	}
}

// check looks at links, order and priorities.
func check(t *testing.T, n *Node[block], depth int) {
	if n == nil {
		return
	}
	if depth > 60 {
		t.Fatal("the tree is a list")
	}
	for _, c := range []*Node[block]{n.left, n.right} {
		if c != nil && (c.parent != n || c.priority > n.priority || c.before(n) != (c == n.left)) {
			t.Fatalf("%+v below %+v", c, n)
		}
	}
	check(t, n.left, depth+1)
	check(t, n.right, depth+1)
}

func TestAllocatesNothing(t *testing.T) {
	var s Set[block]
	list := make([]block, 100)
	if n := testing.AllocsPerRun(10, func() {
		for i := range list {
			list[i].size, list[i].address = int64(i%7), uint64(i)
			list[i].addTo(&s)
		}
		for range s.Descending() {
		}
		for i := range list {
			s.Remove(&list[i].node)
		}
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// BenchmarkFit takes the best fit out of 10,000 blocks and puts it back.
func BenchmarkFit(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	var s Set[block]
	for i := range 10_000 {
		(&block{size: rng.Int64N(1 << 30), address: uint64(i)}).addTo(&s)
	}
	sizes := make([]int64, 1024)
	for i := range sizes {
		sizes[i] = rng.Int64N(1 << 29)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		fit := s.AtLeast(sizes[i%len(sizes)])
		s.Remove(&fit.node)
		fit.addTo(&s)
	}
}
