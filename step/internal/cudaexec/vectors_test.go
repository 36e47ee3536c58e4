package cudaexec

import (
	"bytes"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
)

// TestVectors: products with vectors, in all ways that matrices lie, and what is made of
// them in the same kernel.
func TestVectors(t *testing.T) {
	e := openTest(t)
	var all checks
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16, dtype.F16, dtype.F64} {
		b := newBuilder(t)
		var outputs []graph.Value
		dot := func(x, y graph.Value, a graph.DotAxes) graph.Value {
			z := b.ok(b.DotGeneral(x, y, a))
			outputs = append(outputs, z)
			return z
		}
		columns, rows := graph.DotAxes{Contracted: [2][]int{{1}, {0}}}, graph.DotAxes{Contracted: [2][]int{{1}, {1}}}
		dot(b.random(d, 1, 48), b.random(d, 48, 80), columns)
		dot(b.random(d, 1, 300), b.random(d, 300, 13), columns)
		dot(b.random(d, 1, 16), b.random(d, 16, 600), columns)
		dot(b.random(d, 48, 80), b.random(d, 80, 1), columns)
		dot(b.random(d, 1, 80), b.random(d, 30, 80), rows)
		dot(b.random(d, 1, 600), b.random(d, 7, 600), rows)
		dot(b.random(d, 9, 5), b.random(d, 1, 5), rows)
		dot(b.random(d, 37), b.random(d, 37), graph.DotAxes{Contracted: [2][]int{{0}, {0}}})
		dot(b.random(d, 1, 48), b.ok(b.Transpose(b.random(d, 80, 48), 1, 0)), columns)
		// Heads: queries and keys, weights and values.
		dot(b.random(d, 3, 16), b.random(d, 3, 40, 16), graph.DotAxes{Batch: [2][]int{{0}, {0}}, Contracted: [2][]int{{1}, {2}}})
		dot(b.random(d, 3, 40), b.random(d, 3, 40, 16), graph.DotAxes{Batch: [2][]int{{0}, {0}}, Contracted: [2][]int{{1}, {1}}})
		dot(b.ok(b.Transpose(b.random(d, 40, 3), 1, 0)), b.ok(b.Transpose(b.random(d, 40, 3, 16), 1, 0, 2)), graph.DotAxes{Batch: [2][]int{{0}, {0}}, Contracted: [2][]int{{1}, {1}}})
		// What a kernel computes beside.
		qkv := b.random(d, 1, 3*48)
		part := b.ok(b.Reshape(b.ok(b.Slice(b.ok(b.Reshape(qkv, 3, 3, 16)), []int{1, 0, 0}, []int{2, 3, 16}, nil)), 3, 16))
		scores := b.ok(b.DotGeneral(part, b.random(d, 3, 40, 16), graph.DotAxes{Batch: [2][]int{{0}, {0}}, Contracted: [2][]int{{1}, {2}}}))
		outputs = append(outputs, b.unary(graph.Tanh, b.ok(b.Binary(graph.Add, scores, b.random(d, 3, 40)))))
		y := b.ok(b.DotGeneral(b.random(d, 1, 48), b.random(d, 48, 80), columns))
		y = b.ok(b.Binary(graph.Add, y, b.ok(b.BroadcastInDim(b.random(d, 80), []int{1, 80}, []int{1}))))
		y = b.ok(b.Binary(graph.Add, y, b.random(d, 1, 80)))
		outputs = append(outputs, b.ok(b.Binary(graph.Mul, y, y)))
		z := b.unary(graph.Exp, b.ok(b.DotGeneral(b.unary(graph.Abs, y), b.random(d, 7, 80), rows)))
		outputs = append(outputs, z, b.ok(b.Reduce(graph.ReduceSum, z, 1)))
		all.add(d.String(), b.compared(e, 16, outputs...))
	}
	all.run(t)
}

// TestVectorsGPT2: a token's step, in few tasks.
func TestVectorsGPT2(t *testing.T) {
	e := openTest(t)
	m := testkit.Must(models.GPT2{Layers: 2, Width: 32, Heads: 2, Length: 16, Vocabulary: 50, Type: dtype.F32}.Model())(t)
	b := newBuilder(t)
	b.Graph = m.Graph
	for _, p := range m.Graph.Parameters() {
		s := p.Shape()
		x := make([]float64, s.Size())
		for i := range x {
			x[i] = 3 // the token, and its place
			if s.Type.IsFloat() {
				x[i] = b.rng.Float64() - 0.5
			}
		}
		b.in = append(b.in, bytesOf(s.Type, x))
	}
	if fused := testkit.Must(e.Fuse(m.Graph))(t); len(fused) > 30 {
		t.Errorf("%d tasks for two layers: %v", len(fused), fused)
	}
	b.compare(e, 64, m.Graph.Outputs()...)
}

// TestUpdateInPlace: an update that is written over the array that it updates writes what is
// new, and leaves the rest as it is.
func TestUpdateInPlace(t *testing.T) {
	e := openTest(t)
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16} {
		for _, dims := range [][]int{{3, 40, 16}, {3, 41, 7}, {640}, {1, 9, 64}} {
			b := newBuilder(t)
			window := slices.Clone(dims)
			starts := make([]graph.Value, len(dims))
			for i := range starts {
				starts[i] = b.put(dtype.I32, []float64{0})
			}
			axis := max(0, len(dims)-2)
			window[axis], starts[axis] = 1, b.put(dtype.I32, []float64{float64(dims[axis] - 2)})
			x, update := b.random(d, dims...), b.random(d, window...)
			y := b.ok(b.DynamicUpdateSlice(x, b.unary(graph.Neg, update), starts))
			testkit.OK(t, b.SetOutputs(y))
			want := run(t, reference(t), b.Graph, singles(b.Graph), b.in)
			tasks := testkit.Must(e.Fuse(b.Graph))(t)
			p := prepare(t, e, b.Graph, tasks, b.in)
			last := len(p.calls) - 1
			i := slices.Index(tasks[last].Inputs, x)
			if !p.calls[last].k.(step.Aliaser).CanAlias(0, i) {
				t.Errorf("%v of %v cannot be written over it", window, dims)
			}
			p.calls[last].out[0], p.at[y] = p.calls[last].in[i], p.calls[last].in[i]
			if got := p.run(b.Graph); !bytes.Equal(got[0], want[0]) {
				t.Errorf("%v: %v of %v in place differs from the host's", d, window, dims)
			}
		}
	}
}
