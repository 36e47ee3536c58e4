package cudaexec

import (
	"fmt"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// block adds a block of a GPT, forward and backward, as a framework's autodiff would:
// normalisations in float32, products of type d, weights and their gradients float32.
// Attention is one operation, or several. It returns the result and the gradients.
func (b *builder) block(d dtype.DType, batch, length, width, heads int, whole bool) []graph.Value {
	b.t.Helper()
	n, hidden, each := batch*length, 4*width, width/heads
	f32 := dtype.F32
	scalar := func(x float64) graph.Value { return b.ok(b.Fill(x, graph.MakeShape(f32))) }
	add := func(x, y graph.Value) graph.Value { return b.binary(graph.Add, x, y) }
	sub := func(x, y graph.Value) graph.Value { return b.binary(graph.Sub, x, y) }
	mul := func(x, y graph.Value) graph.Value { return b.binary(graph.Mul, x, y) }
	wide := func(v graph.Value, like graph.Value) graph.Value { // a number for each row
		dims := like.Shape().Dims
		axes := make([]int, len(dims)-1)
		for i := range axes {
			axes[i] = i
		}
		return b.ok(b.BroadcastInDim(v, dims, axes))
	}
	along := func(v graph.Value, like graph.Value) graph.Value { // one for each column
		dims := like.Shape().Dims
		return b.ok(b.BroadcastInDim(v, dims, []int{len(dims) - 1}))
	}
	sum := func(v graph.Value) graph.Value { return b.ok(b.Reduce(graph.ReduceSum, v, v.Shape().Rank()-1)) }
	columns := func(v graph.Value) graph.Value { return b.ok(b.Reduce(graph.ReduceSum, v, 0)) }
	cast := func(v graph.Value) graph.Value { return b.ok(b.Convert(v, d)) }
	float := func(v graph.Value) graph.Value { return b.ok(b.Convert(v, f32)) }
	dot := func(x, y graph.Value, contracted [2]int, result dtype.DType) graph.Value {
		return b.ok(b.DotGeneral(x, y, graph.DotAxes{Contracted: [2][]int{{contracted[0]}, {contracted[1]}}, Result: result}))
	}
	type normalised struct{ y, centred, inverse, scale graph.Value }
	over := scalar(1 / float64(width))
	norm := func(x graph.Value) normalised {
		scale, offset := b.random(f32, width), b.random(f32, width)
		centred := sub(x, wide(mul(sum(x), over), x))
		inverse := b.unary(graph.Rsqrt, add(mul(sum(mul(centred, centred)), over), scalar(1e-5)))
		y := add(mul(mul(centred, wide(inverse, x)), along(scale, x)), along(offset, x))
		return normalised{y, centred, inverse, scale}
	}
	back := func(m normalised, dy graph.Value) (dx, dscale, doffset graph.Value) {
		hat := mul(m.centred, wide(m.inverse, dy))
		g := mul(dy, along(m.scale, dy))
		inner := sub(sub(g, wide(mul(sum(g), over), g)), mul(hat, wide(mul(sum(mul(g, hat)), over), g)))
		return mul(inner, wide(m.inverse, dy)), columns(mul(dy, hat)), columns(dy)
	}
	x, dy := b.random(f32, n, width), b.random(f32, n, width)
	weight := func(in, out int) graph.Value {
		return cast(mul(b.random(f32, in, out), scalar(0.02)))
	}
	wq, wk, wv, wo, w1, w2 := weight(width, width), weight(width, width), weight(width, width), weight(width, width), weight(width, hidden), weight(hidden, width)
	b1, b2 := b.random(f32, hidden), b.random(f32, width)

	// Forward.
	n1 := norm(x)
	h := cast(n1.y)
	attention := b.attentionOfParts
	if whole {
		attention = b.attentionOfOne
	}
	shape := []int{batch, length, heads, each}
	apart := func(v graph.Value) graph.Value { return b.ok(b.Reshape(v, shape...)) }
	flat := func(v graph.Value) graph.Value { return b.ok(b.Reshape(v, n, width)) }
	o, attentionBack := attention(apart(dot(h, wq, [2]int{1, 0}, d)), apart(dot(h, wk, [2]int{1, 0}, d)), apart(dot(h, wv, [2]int{1, 0}, d)))
	o = flat(o)
	x2 := add(x, float(dot(o, wo, [2]int{1, 0}, d)))
	n2 := norm(x2)
	h2 := cast(n2.y)
	a := float(dot(h2, w1, [2]int{1, 0}, d))
	a = add(a, along(b1, a))
	half := scalar(0.5)
	cdf := mul(add(b.unary(graph.Erf, mul(a, scalar(0.7071067811865476))), scalar(1)), half)
	y := cast(mul(a, cdf))
	out := add(add(x2, float(dot(y, w2, [2]int{1, 0}, d))), along(b2, x2))

	// Backward.
	dyh := cast(dy)
	dw2 := dot(y, dyh, [2]int{0, 0}, f32)
	da := float(dot(dyh, w2, [2]int{1, 1}, d))
	density := mul(b.unary(graph.Exp, mul(mul(a, a), scalar(-0.5))), scalar(0.3989422804014327))
	da = mul(da, add(cdf, mul(a, density)))
	dah := cast(da)
	dw1 := dot(h2, dah, [2]int{0, 0}, f32)
	dx2, dscale2, doffset2 := back(n2, float(dot(dah, w1, [2]int{1, 1}, d)))
	dx2 = add(dx2, dy)
	do := cast(dx2)
	dwo := dot(o, do, [2]int{0, 0}, f32)
	dq, dk, dvf := attentionBack(apart(dot(do, wo, [2]int{1, 1}, d)))
	dq, dk, dvf = flat(dq), flat(dk), flat(dvf)
	dwq, dwk, dwv := dot(h, dq, [2]int{0, 0}, f32), dot(h, dk, [2]int{0, 0}, f32), dot(h, dvf, [2]int{0, 0}, f32)
	dh := add(add(float(dot(dq, wq, [2]int{1, 1}, d)), float(dot(dk, wk, [2]int{1, 1}, d))), float(dot(dvf, wv, [2]int{1, 1}, d)))
	dx, dscale1, doffset1 := back(n1, dh)
	dx = add(dx, dx2)
	return []graph.Value{out, dx, dwq, dwk, dwv, dwo, dw1, dw2, columns(da), columns(dy), dscale1, doffset1, dscale2, doffset2}
}

// backward are the gradients of an attention.
type backward func(dout graph.Value) (dq, dk, dv graph.Value)

// attentionOfOne is causal attention of operands [batch, length, heads, each].
func (b *builder) attentionOfOne(q, k, v graph.Value) (graph.Value, backward) {
	b.t.Helper()
	options := graph.AttentionOptions{Causal: true, HeadsBehind: true, Scale: 1.0 / 8}
	out, sums, err := b.Attention(q, k, v, options)
	testkit.OK(b.t, err)
	return out, func(dout graph.Value) (dq, dk, dv graph.Value) {
		dq, dk, dv, err := b.AttentionBackward(q, k, v, out, sums, dout, options)
		testkit.OK(b.t, err)
		return dq, dk, dv
	}
}

// attentionOfParts is the same, by products and a softmax.
func (b *builder) attentionOfParts(q, k, v graph.Value) (graph.Value, backward) {
	b.t.Helper()
	d, f32 := q.Shape().Type, dtype.F32
	batch, length, heads := q.Shape().Dims[0], q.Shape().Dims[1], q.Shape().Dims[2]
	mul := func(x, y graph.Value) graph.Value { return b.binary(graph.Mul, x, y) }
	turned := func(v graph.Value) graph.Value { return b.ok(b.Transpose(v, 0, 2, 1, 3)) }
	cast := func(v graph.Value) graph.Value { return b.ok(b.Convert(v, d)) }
	float := func(v graph.Value) graph.Value { return b.ok(b.Convert(v, f32)) }
	dot := func(x, y graph.Value, contracted [2]int) graph.Value {
		return b.ok(b.DotGeneral(x, y, graph.DotAxes{Batch: [2][]int{{0, 1}, {0, 1}}, Contracted: [2][]int{{contracted[0]}, {contracted[1]}}}))
	}
	q, k, v = turned(q), turned(k), turned(v)
	root := b.ok(b.Fill(1.0/8, graph.MakeShape(f32)))
	scores := mul(float(dot(q, k, [2]int{3, 3})), root)
	square := graph.MakeShape(dtype.I32, batch, heads, length, length)
	mask := b.binary(graph.GreaterOrEqual, b.ok(b.Iota(square, 2)), b.ok(b.Iota(square, 3)))
	p := b.softmax(b.ok(b.Where(mask, scores, b.ok(b.Fill(-1e30, graph.MakeShape(f32))))))
	ph := cast(p)
	return turned(dot(ph, v, [2]int{3, 2})), func(dout graph.Value) (dq, dk, dv graph.Value) {
		dout = turned(dout)
		dv = dot(ph, dout, [2]int{2, 2})
		dp := float(dot(dout, v, [2]int{3, 3}))
		inner := b.ok(b.BroadcastInDim(b.ok(b.Reduce(graph.ReduceSum, mul(dp, p), 3)), square.Dims, []int{0, 1, 2}))
		ds := cast(mul(mul(p, b.binary(graph.Sub, dp, inner)), root))
		return turned(dot(ds, k, [2]int{3, 2})), turned(dot(ds, q, [2]int{2, 2})), turned(dv)
	}
}

func TestBlock(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	e := openTest(t)
	for d, slack := range map[dtype.DType]float64{dtype.F32: 500, dtype.BF16: 40} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v,whole=%t", d, whole), func(t *testing.T) {
				b := newBuilder(t)
				b.compare(e, slack, b.block(d, 2, 8, 32, 2, whole)...)
			})
		}
	}
}

// Forward and backward of one block of a GPT, 16 heads, as large as peers/torch_step.py
// has it; a small one where kernels do not run on a GPU.
func BenchmarkBlock(b *testing.B) {
	e := openTest(b)
	_, small := e.launcher.(*shim)
	for _, v := range []struct {
		name     string
		d        dtype.DType
		whole    bool // attention is one operation
		tuned    bool
		products int
	}{{"f32", dtype.F32, false, false, 24}, {"bf16", dtype.BF16, false, false, 24}, {"bf16-whole", dtype.BF16, true, false, 18}, {"bf16-whole-tuned", dtype.BF16, true, true, 18}} {
		b.Run(v.name, func(b *testing.B) {
			if v.tuned {
				b.Setenv("XDG_CACHE_HOME", b.TempDir())
				if !e.tune() {
					b.Skip("the library measures nothing")
				}
			}
			g := newBuilder(b)
			batch, length, width, heads := 8, 1024, 2048, 16
			if small {
				batch, length, width, heads = 1, 8, 32, 2
			}
			testkit.OK(b, g.SetOutputs(g.block(v.d, batch, length, width, heads, v.whole)...))
			tasks, err := Fuse(g.Graph)
			testkit.OK(b, err)
			p := prepare(b, e, g.Graph, tasks, g.in)
			products := 0
			for _, c := range p.calls {
				if _, ok := c.k.(*gemms); ok {
					products++
				}
			}
			if products != v.products {
				b.Errorf("the library has %d of %d products", products, v.products)
			}
			p.launch()
			testkit.OK(b, p.stream.Synchronize())
			for b.Loop() {
				p.launch()
				testkit.OK(b, p.stream.Synchronize())
			}
			b.ReportMetric(float64(len(tasks)), "tasks")
			p.profile()
			p.close()
		})
	}
}
