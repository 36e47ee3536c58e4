package mincut_test

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/step/internal/mincut"
)

// Cuts cost what the cheapest of all costs, with the fewest nodes on the source's side.
func TestCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	type edge struct {
		from, to int
		cost     int64
	}
	for range 300 {
		n := 1 + rng.IntN(8)
		g := mincut.New(n - 1)
		if g.Node() != n-1 {
			t.Fatal("a node has another number")
		}
		var edges []edge
		for range rng.IntN(3 * n) {
			e := edge{rng.IntN(n+1) - 1, rng.IntN(n+1) - 1, rng.Int64N(4)}
			if e.to == mincut.Source {
				e.to = mincut.Sink
			}
			if e.from == e.to {
				continue
			}
			edges = append(edges, e)
			g.Add(e.from, e.to, e.cost)
		}
		cost := func(in func(i int) bool) (sum int64) {
			for _, e := range edges {
				if (e.from == mincut.Source || in(e.from)) && (e.to == mincut.Sink || !in(e.to)) {
					sum += e.cost
				}
			}
			return sum
		}
		best, fewest := int64(1<<60), 0
		for set := range 1 << n {
			c := cost(func(i int) bool { return set>>i&1 == 1 })
			if size := bits.OnesCount(uint(set)); c < best || c == best && size < fewest {
				best, fewest = c, size
			}
		}
		side := g.Cut()
		size := 0
		for _, s := range side {
			if s {
				size++
			}
		}
		if got := cost(func(i int) bool { return side[i] }); got != best || size != fewest {
			t.Fatalf("%v: a cut of %d with %d nodes, want %d with %d", edges, got, size, best, fewest)
		}
	}
}
