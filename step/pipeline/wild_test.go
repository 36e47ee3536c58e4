package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/pipeline"
	"github.com/pinion-gpu/pinion/step/train"
)

// wildNet is a step whose ways forward and back, and whose update, read anything that they
// may: what it computes means nothing.
func wildNet(seed uint64) *network {
	m := &maker{network: &network{initial: map[graph.Value][]byte{}}, g: graph.New("wild"), rng: rand.New(rand.NewPCG(seed, 4))}
	m.Graph = m.g
	const n = 4
	pick := func(list []graph.Value) graph.Value { // late ones rather than early ones
		return list[len(list)-1-min(m.rng.IntN(len(list)), m.rng.IntN(len(list)))]
	}
	mix := func(a, b graph.Value) graph.Value {
		switch m.rng.IntN(4) {
		case 0:
			return m.bin(graph.Sub, a, b)
		case 1:
			return must(m.g.Unary(graph.Tanh, m.bin(graph.Add, a, b)))
		case 2:
			return m.bin(graph.Mul, must(m.g.Unary(graph.Tanh, a)), b)
		}
		return must(m.g.Unary(graph.Tanh, a))
	}
	x := m.param(f32(n), nil)
	m.Batch = []graph.Value{x}
	weights := []graph.Value{}
	for range 2 + m.rng.IntN(4) {
		weights = append(weights, m.param(f32(n), normal(m.rng, n, 1)))
	}
	key := m.param(graph.MakeShape(dtype.U64, 3), make([]byte, 24))
	next, bits, err := m.g.RNGBitGenerator(key, graph.MakeShape(dtype.U32, n))
	noise := m.times(must(m.g.Convert(bits, dtype.F32)), 1./(1<<32))
	m.State = append(m.State, train.State{Param: key, Next: must(next, err), Each: true})
	free := append(slices.Clone(weights), m.vector(n, 0.5), noise)
	for range 3 {
		free = append(free, mix(pick(free), pick(free)))
	}
	forward := []graph.Value{x}
	for range 6 + m.rng.IntN(8) {
		list := append(slices.Clone(free), forward...)
		forward = append(forward, mix(pick(forward), pick(list)))
	}
	m.Loss = must(m.g.Reduce(graph.ReduceSum, forward[len(forward)-1], 0))
	if m.rng.IntN(2) == 0 {
		kept := m.param(f32(n), floats(make([]float32, n)...))
		m.State = append(m.State, train.State{Param: kept, Next: m.bin(graph.Add, m.times(kept, 0.5), forward[m.rng.IntN(len(forward))]), Each: true})
	}
	back := []graph.Value{forward[len(forward)-1]}
	for range 6 + m.rng.IntN(12) {
		list := slices.Concat(free, forward, back)
		back = append(back, mix(pick(back), list[m.rng.IntN(len(list))]))
		if m.rng.IntN(5) == 0 { // from nothing of the way back
			back = append(back, mix(forward[m.rng.IntN(len(forward))], free[m.rng.IntN(len(free))]))
		}
	}
	for range 1 + m.rng.IntN(5) {
		list := back[1:]
		switch m.rng.IntN(6) {
		case 0:
			list = forward[1:]
		case 1:
			list = free[len(free)-3:]
		}
		if g := list[m.rng.IntN(len(list))]; !slices.Contains(m.Gradients, g) {
			m.Gradients = append(m.Gradients, g)
		}
	}
	pool := append(slices.Clone(weights), m.vector(n, 0.25))
	for range 3 + m.rng.IntN(6) {
		v := mix(pick(append(slices.Clone(m.Gradients), pool...)), m.Gradients[m.rng.IntN(len(m.Gradients))])
		if m.rng.IntN(3) == 0 {
			v = m.spread(must(m.g.Reduce(graph.ReduceMax, v, 0)), v)
		}
		pool = append(pool, v)
	}
	for i, w := range weights {
		st := train.State{Param: w}
		if i == 0 || m.rng.IntN(4) > 0 {
			st.Next = must(m.g.Unary(graph.Tanh, m.bin(graph.Sub, w, m.times(pick(pool), 0.1))))
		}
		m.State = append(m.State, st)
	}
	m.data = func(step, micro int) [][]byte {
		return [][]byte{normal(rand.New(rand.NewPCG(seed, uint64(100*step+micro))), n, 1)}
	}
	return m.network
}

// vector is a vector of a number.
func (m *maker) vector(n int, v float64) graph.Value { return must(m.g.Fill(v, f32(n))) }

// Whatever reads whatever, stages come to what one device comes to, with the same bits.
func TestWild(t *testing.T) {
	testkit.NoLeaks(t)
	seeds := uint64(200)
	if testing.Short() {
		seeds = 40
	}
	ran := 0
	for seed := range seeds {
		n := wildNet(seed)
		c := [][3]int{{2, 1, 2}, {3, 1, 4}, {2, 2, 2}, {4, 1, 3}, {1, 3, 2}, {3, 2, 3}}[seed%6]
		what := fmt.Sprintf("seed %d on %d ranks with %d stages, %d micro-batches", seed, c[0], c[1], c[2])
		got, err := n.staged(t, c[0], 2, pipeline.Options{Micro: c[2], Chunks: c[1]})
		if err != nil && strings.Contains(err.Error(), "stages of a loss") { // few operations are wanted
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		ran++
		same(t, what, n, got, n.alone(t, c[2], 2))
	}
	if ran < int(seeds)*3/4 {
		t.Errorf("%d of %d nets could be cut", ran, seeds)
	}
}
