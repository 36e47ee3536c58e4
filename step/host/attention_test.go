package host_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
)

// attention is one, with operands of a type.
type attention struct {
	batch, heads, keyHeads, queries, keys, each int
	graph.AttentionOptions
}

func (a attention) String() string {
	return fmt.Sprintf("%dx%d:%d,%d:%d,%d,causal=%t,behind=%t", a.batch, a.heads, a.keyHeads, a.queries, a.keys, a.each, a.Causal, a.HeadsBehind)
}

func (a attention) shape(t dtype.DType, heads, length int) graph.Shape {
	if a.HeadsBehind {
		return graph.MakeShape(t, a.batch, length, heads, a.each)
	}
	return graph.MakeShape(t, a.batch, heads, length, a.each)
}

var attentions = []attention{
	{1, 1, 1, 1, 1, 1, graph.AttentionOptions{}},
	{2, 2, 2, 5, 7, 4, graph.AttentionOptions{}},
	{1, 4, 2, 70, 70, 8, graph.AttentionOptions{Causal: true, HeadsBehind: true}},
	{2, 3, 1, 33, 130, 5, graph.AttentionOptions{Causal: true, Scale: 0.7}},
	{1, 2, 2, 100, 65, 16, graph.AttentionOptions{Causal: true}},
	{1, 2, 1, 9, 64, 3, graph.AttentionOptions{HeadsBehind: true, Scale: -0.3}},
}

// results runs the graph.
func (x *tester) results(outputs ...graph.Value) [][]float64 {
	x.t.Helper()
	testkit.OK(x.t, x.SetOutputs(outputs...))
	run := testkit.Must(step.Compile(x.Graph, x.exec, step.Options{}))(x.t)
	defer run.Close()
	var in []*step.Tensor
	for _, p := range x.Parameters() {
		in = append(in, testkit.Must(run.Memory().Put(x.inputs[p].bytes(), p.Shape()))(x.t))
	}
	out := testkit.Must(run.Run(context.Background(), in, nil))(x.t)
	var all [][]float64
	for _, r := range out {
		b := make([]byte, r.Shape().Bytes())
		testkit.OK(x.t, r.Read(b))
		all = append(all, fromBytes(r.Shape(), b).f)
	}
	for _, v := range append(in, out...) {
		testkit.OK(x.t, v.Free())
	}
	return all
}

// attend adds an attention, by the operation and of several, with its gradients.
func (x *tester) attend(a attention, t dtype.DType) (fused, parts []graph.Value) {
	x.t.Helper()
	normal := func(t *tensor, i int) { t.setF(i, x.rng.NormFloat64()) }
	q, dout := x.param(a.shape(t, a.heads, a.queries), normal), x.param(a.shape(t, a.heads, a.queries), normal)
	k, v := x.param(a.shape(t, a.keyHeads, a.keys), normal), x.param(a.shape(t, a.keyHeads, a.keys), normal)
	out, sums, err := x.Attention(q, k, v, a.AttentionOptions)
	testkit.OK(x.t, err)
	dq, dk, dv, err := x.AttentionBackward(q, k, v, out, sums, dout, a.AttentionOptions)
	testkit.OK(x.t, err)
	fused = []graph.Value{out, sums, dq, dk, dv}

	// The parts are computed as widely as there is, of the same operands.
	f := dtype.F64
	scale := a.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(a.each))
	}
	scalar := func(c float64) graph.Value { return x.must(x.Fill(c, graph.MakeShape(f))) }
	ordered := func(v graph.Value) graph.Value { // batch, heads, length, each
		v = x.must(x.Convert(v, f))
		if a.HeadsBehind {
			v = x.must(x.Transpose(v, 0, 2, 1, 3))
		}
		return v
	}
	back := func(v graph.Value) graph.Value {
		if a.HeadsBehind {
			v = x.must(x.Transpose(v, 0, 2, 1, 3))
		}
		return v
	}
	per := a.heads / a.keyHeads
	shared := func(v graph.Value) graph.Value { // a head for each of the queries'
		v = ordered(v)
		v = x.must(x.BroadcastInDim(v, []int{a.batch, a.keyHeads, per, a.keys, a.each}, []int{0, 1, 3, 4}))
		return x.must(x.Reshape(v, a.batch, a.heads, a.keys, a.each))
	}
	added := func(v graph.Value) graph.Value { // over the heads that share one
		v = x.must(x.Reshape(v, a.batch, a.keyHeads, per, a.keys, a.each))
		return back(x.must(x.Reduce(graph.ReduceSum, v, 2)))
	}
	dot := func(y, z graph.Value, contracted ...int) graph.Value {
		return x.must(x.DotGeneral(y, z, graph.DotAxes{Batch: [2][]int{{0, 1}, {0, 1}}, Contracted: [2][]int{{contracted[0]}, {contracted[1]}}}))
	}
	binary := func(op graph.Op, y, z graph.Value) graph.Value { return x.must(x.Binary(op, y, z)) }
	square := graph.MakeShape(f, a.batch, a.heads, a.queries, a.keys)
	wide := func(v graph.Value) graph.Value { return x.must(x.BroadcastInDim(v, square.Dims, []int{0, 1, 2})) }
	q, dout, k, v = ordered(q), ordered(dout), shared(k), shared(v)
	scores := binary(graph.Mul, dot(q, k, 3, 3), scalar(scale))
	if a.Causal {
		index := graph.MakeShape(dtype.I32, square.Dims...)
		seen := binary(graph.GreaterOrEqual, x.must(x.Iota(index, 2)), x.must(x.Iota(index, 3)))
		scores = x.must(x.Where(seen, scores, scalar(math.Inf(-1))))
	}
	most := x.must(x.Reduce(graph.ReduceMax, scores, 3))
	p := x.must(x.Unary(graph.Exp, binary(graph.Sub, scores, wide(most))))
	sum := x.must(x.Reduce(graph.ReduceSum, p, 3))
	p = binary(graph.Div, p, wide(sum))
	o := dot(p, v, 3, 2)
	dp := dot(dout, v, 3, 3)
	delta := x.must(x.Reduce(graph.ReduceSum, binary(graph.Mul, dp, p), 3))
	ds := binary(graph.Mul, binary(graph.Mul, p, binary(graph.Sub, dp, wide(delta))), scalar(scale))
	parts = []graph.Value{back(o), binary(graph.Add, most, x.must(x.Unary(graph.Log, sum))),
		back(dot(ds, k, 3, 2)), added(dot(ds, q, 2, 2)), added(dot(p, dout, 2, 2))}
	return fused, parts
}

// The operation gives what those give that it stands for.
func TestAttention(t *testing.T) {
	x := newTester(t)
	for typ, most := range map[dtype.DType]float64{dtype.F64: 1e-12, dtype.F32: 1e-5, dtype.F16: 4e-3, dtype.BF16: 3e-2} {
		for _, a := range attentions {
			t.Run(fmt.Sprint(typ, a), func(t *testing.T) {
				x.begin()
				fused, parts := x.attend(a, typ)
				all := x.results(append(fused, parts...)...)
				for i, got := range all[:len(fused)] {
					want := all[len(fused)+i]
					for j := range want {
						// Sums over keys or queries, of numbers that are rounded.
						if math.Abs(got[j]-want[j]) > most*(1+math.Abs(want[j])+math.Sqrt(float64(a.queries))/2) {
							t.Fatalf("output %d, element %d: %v, want %v", i, j, got[j], want[j])
						}
					}
				}
			})
		}
	}
}

// Gradients are how the result changes.
func TestAttentionGradients(t *testing.T) {
	x := newTester(t)
	for _, a := range attentions {
		if a.queries*a.keys > 5000 {
			continue
		}
		t.Run(a.String(), func(t *testing.T) {
			x.begin()
			fused, _ := x.attend(a, dtype.F64)
			params := x.Parameters() // q, dout, k, v
			dout := x.inputs[params[1]].f
			gradients := x.results(fused...)[2:]
			along := func() (sum float64) {
				for i, v := range x.results(fused[0])[0] {
					sum += v * dout[i]
				}
				return sum
			}
			const h = 1e-5
			for i, p := range []graph.Value{params[0], params[2], params[3]} {
				data := x.inputs[p].f
				for range 4 {
					j := x.rng.IntN(len(data))
					was := data[j]
					data[j] = was + h
					up := along()
					data[j] = was - h
					down := along()
					data[j] = was
					if want, got := (up-down)/(2*h), gradients[i][j]; math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
						t.Errorf("gradient %d, element %d: %v, want %v", i, j, got, want)
					}
				}
			}
		})
	}
}

// Scores that are large, or infinite, give what a softmax gives.
func TestAttentionExtremes(t *testing.T) {
	x := newTester(t)
	x.begin()
	at := func(values ...float64) func(t *tensor, i int) { return func(t *tensor, i int) { t.setF(i, values[i]) } }
	s := graph.MakeShape(dtype.F32, 1, 1, 3, 1)
	q, k, v := x.param(s, at(1, 1e18, 0)), x.param(s, at(1e19, 2e19, math.Inf(-1))), x.param(s, at(1, 2, 4))
	out, sums, err := x.Attention(q, k, v, graph.AttentionOptions{Scale: 1})
	testkit.OK(t, err)
	got := x.results(out, sums)
	for i, want := range []float64{2, 2, math.NaN()} {
		if g := got[0][i]; g != want && !(math.IsNaN(g) && math.IsNaN(want)) {
			t.Errorf("result %d: %v, want %v", i, g, want)
		}
	}
}
