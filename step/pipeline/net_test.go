package pipeline_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/train"
)

// network is a training step with its first state, and the data of its micro-batches.
type network struct {
	train.Step
	initial map[graph.Value][]byte
	data    func(step, micro int) [][]byte // of each of Batch
}

func floats(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func numbers(data []byte) []float32 {
	v := make([]float32, len(data)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return v
}

func normal(rng *rand.Rand, n int, deviation float64) []byte {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64() * deviation)
	}
	return floats(v...)
}

func f32(dims ...int) graph.Shape { return graph.MakeShape(dtype.F32, dims...) }

// maker adds operations, and panics where one fails: nets are known to be right.
type maker struct {
	*network
	g         *graph.Graph
	rng       *rand.Rand
	gradients map[graph.Value]graph.Value
}

func must(v graph.Value, err error) graph.Value {
	if err != nil {
		panic(err)
	}
	return v
}

func (m *maker) bin(op graph.Op, x, y graph.Value) graph.Value { return must(m.g.Binary(op, x, y)) }
func (m *maker) num(v float64) graph.Value                     { return must(m.g.Fill(v, f32())) }
func (m *maker) times(x graph.Value, v float64) graph.Value {
	return m.bin(graph.Mul, x, must(m.g.Fill(v, x.Shape())))
}

func (m *maker) dot(x, y graph.Value, a, b int) graph.Value {
	return must(m.g.DotGeneral(x, y, graph.DotAxes{Contracted: [2][]int{{a}, {b}}}))
}

func (m *maker) spread(x graph.Value, like graph.Value, axes ...int) graph.Value {
	return must(m.g.BroadcastInDim(x, like.Shape().Dims, axes))
}

func (m *maker) param(s graph.Shape, data []byte) graph.Value {
	p := must(m.g.Parameter(fmt.Sprintf("p%d", len(m.g.Parameters())), s))
	m.initial[p] = data
	return p
}

func (m *maker) give(v, g graph.Value) {
	if old, ok := m.gradients[v]; ok {
		g = m.bin(graph.Add, old, g)
	}
	m.gradients[v] = g
}

// traits are what a random net may have.
type traits struct {
	layers, rows, width        int
	tied, drop, norms, clipped bool
}

// randomNet is a perceptron with skips across many layers, with Adam. It may have weights
// that several layers share, random numbers, means that are kept of each micro-batch, and
// gradients that are clipped by the norm of all.
func randomNet(seed uint64, t traits) *network {
	m := &maker{network: &network{initial: map[graph.Value][]byte{}}, g: graph.New("net"), rng: rand.New(rand.NewPCG(seed, 3)), gradients: map[graph.Value]graph.Value{}}
	m.Graph = m.g
	x, y := m.param(f32(t.rows, t.width), nil), m.param(f32(t.rows, t.width), nil)
	m.Batch = []graph.Value{x, y}
	var key graph.Value
	if t.drop {
		key = m.param(graph.MakeShape(dtype.U64, 3), make([]byte, 24))
	}
	begin := key
	var weights []graph.Value
	var tape []func()
	h := []graph.Value{x}
	for i := range t.layers {
		in := h[i]
		w, tied := graph.Value{}, t.tied && i > 0 && m.rng.IntN(3) == 0
		if tied {
			w = weights[m.rng.IntN(len(weights))]
		} else {
			w = m.param(f32(t.width, t.width), normal(m.rng, t.width*t.width, 0.4))
			weights = append(weights, w)
		}
		out := must(m.g.Unary(graph.Tanh, m.dot(in, w, 1, 0)))
		act := out
		var mask graph.Value
		if t.drop && m.rng.IntN(2) == 0 {
			next, bits, err := m.g.RNGBitGenerator(key, graph.MakeShape(dtype.U32, t.rows, t.width))
			key = must(next, err)
			half := must(m.g.Fill(1<<31, graph.MakeShape(dtype.U32)))
			mask = must(m.g.Convert(m.bin(graph.Less, bits, half), dtype.F32))
			out = m.bin(graph.Mul, out, mask)
		}
		if t.norms && m.rng.IntN(2) == 0 {
			kept := m.param(f32(t.width), floats(make([]float32, t.width)...))
			now := m.times(must(m.g.Reduce(graph.ReduceSum, out, 0)), 0.1/float64(t.rows))
			m.State = append(m.State, train.State{Param: kept, Next: m.bin(graph.Add, m.times(kept, 0.9), now), Each: true})
		}
		var skips []graph.Value
		for _, v := range h[1:] {
			if m.rng.IntN(4) == 0 {
				out, skips = m.bin(graph.Add, out, v), append(skips, v)
			}
		}
		h = append(h, out)
		tape = append(tape, func() {
			d := m.gradients[out]
			for _, v := range skips {
				m.give(v, d)
			}
			if mask != (graph.Value{}) {
				d = m.bin(graph.Mul, d, mask)
			}
			d = m.bin(graph.Mul, d, m.bin(graph.Sub, m.num(1), m.bin(graph.Mul, act, act)))
			m.give(w, m.dot(in, d, 0, 0))
			if i > 0 {
				m.give(in, m.dot(d, w, 1, 1))
			}
		})
	}
	last, over := h[t.layers], 1/float64(t.rows*t.width)
	off := m.bin(graph.Sub, last, y)
	m.Loss = m.bin(graph.Mul, must(m.g.Reduce(graph.ReduceSum, m.bin(graph.Mul, off, off), 0, 1)), m.num(over))
	m.give(last, m.times(off, 2*over))
	for i := len(tape) - 1; i >= 0; i-- {
		tape[i]()
	}
	if t.drop {
		m.State = append(m.State, train.State{Param: begin, Next: key, Each: true})
	}
	m.update(weights, t.clipped)
	rows := t.rows * t.width
	m.data = func(step, micro int) [][]byte {
		rng := rand.New(rand.NewPCG(seed, uint64(1000+100*step+micro)))
		return [][]byte{normal(rng, rows, 1), normal(rng, rows, 0.5)}
	}
	return m.network
}

// update is Adam, with a mean of the weights besides.
func (m *maker) update(weights []graph.Value, clipped bool) {
	var gradients []graph.Value
	for _, w := range weights {
		gradients = append(gradients, m.gradients[w])
	}
	m.Gradients = append(m.Gradients, gradients...)
	if clipped {
		norm := m.num(0)
		for _, g := range gradients {
			norm = m.bin(graph.Add, norm, must(m.g.Reduce(graph.ReduceSum, m.bin(graph.Mul, g, g), 0, 1)))
		}
		share := m.bin(graph.Min, m.num(1), m.bin(graph.Div, m.num(0.05), must(m.g.Unary(graph.Sqrt, norm))))
		for i, g := range gradients {
			gradients[i] = m.bin(graph.Mul, g, m.spread(share, g))
		}
	}
	state := func(like graph.Value) graph.Value {
		return m.param(like.Shape(), make([]byte, like.Shape().Bytes()))
	}
	count := state(m.num(0))
	steps := m.bin(graph.Add, count, m.num(1))
	m.State = append(m.State, train.State{Param: count, Next: steps})
	first := m.bin(graph.Sub, m.num(1), m.bin(graph.Pow, m.num(0.9), steps))
	for i, w := range weights {
		mean, square, slow := state(w), state(w), state(w)
		a := m.bin(graph.Add, m.times(mean, 0.9), m.times(gradients[i], 0.1))
		b := m.bin(graph.Add, m.times(square, 0.999), m.times(m.bin(graph.Mul, gradients[i], gradients[i]), 0.001))
		root := m.bin(graph.Add, must(m.g.Unary(graph.Sqrt, b)), m.num(1e-3))
		next := m.bin(graph.Sub, w, m.times(m.bin(graph.Div, m.bin(graph.Div, a, first), root), 0.01))
		m.State = append(m.State, train.State{Param: w, Next: next}, train.State{Param: mean, Next: a}, train.State{Param: square, Next: b},
			train.State{Param: slow, Next: m.bin(graph.Add, m.times(slow, 0.5), m.times(w, 0.5))})
	}
}
