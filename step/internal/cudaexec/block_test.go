package cudaexec

import (
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
)

// block adds a block of a GPT, forward and backward, as a framework's autodiff would:
// normalisations in float32, products of type d, weights and their gradients float32.
// It returns the result and the gradients.
func (b *builder) block(d dtype.DType, batch, length, width, heads int) []step.Value {
	b.t.Helper()
	n, hidden, each := batch*length, 4*width, width/heads
	f32 := dtype.F32
	scalar := func(x float64) step.Value { return b.ok(b.Fill(x, step.MakeShape(f32))) }
	add := func(x, y step.Value) step.Value { return b.binary(step.Add, x, y) }
	sub := func(x, y step.Value) step.Value { return b.binary(step.Sub, x, y) }
	mul := func(x, y step.Value) step.Value { return b.binary(step.Mul, x, y) }
	wide := func(v step.Value, like step.Value) step.Value { // a number for each row
		dims := like.Shape().Dims
		axes := make([]int, len(dims)-1)
		for i := range axes {
			axes[i] = i
		}
		return b.ok(b.BroadcastInDim(v, dims, axes))
	}
	along := func(v step.Value, like step.Value) step.Value { // one for each column
		dims := like.Shape().Dims
		return b.ok(b.BroadcastInDim(v, dims, []int{len(dims) - 1}))
	}
	sum := func(v step.Value) step.Value { return b.ok(b.Reduce(step.ReduceSum, v, v.Shape().Rank()-1)) }
	columns := func(v step.Value) step.Value { return b.ok(b.Reduce(step.ReduceSum, v, 0)) }
	cast := func(v step.Value) step.Value { return b.ok(b.Convert(v, d)) }
	float := func(v step.Value) step.Value { return b.ok(b.Convert(v, f32)) }
	dot := func(x, y step.Value, contracted [2]int, result dtype.DType) step.Value {
		return b.ok(b.DotGeneral(x, y, step.DotAxes{Contracted: [2][]int{{contracted[0]}, {contracted[1]}}, Result: result}))
	}
	attend := func(x, y step.Value, contracted [2]int) step.Value {
		return b.ok(b.DotGeneral(x, y, step.DotAxes{Batch: [2][]int{{0, 1}, {0, 1}}, Contracted: [2][]int{{contracted[0]}, {contracted[1]}}}))
	}
	type normalised struct{ y, centred, inverse, scale step.Value }
	over := scalar(1 / float64(width))
	norm := func(x step.Value) normalised {
		scale, offset := b.random(f32, width), b.random(f32, width)
		centred := sub(x, wide(mul(sum(x), over), x))
		inverse := b.unary(step.Rsqrt, add(mul(sum(mul(centred, centred)), over), scalar(1e-5)))
		y := add(mul(mul(centred, wide(inverse, x)), along(scale, x)), along(offset, x))
		return normalised{y, centred, inverse, scale}
	}
	back := func(m normalised, dy step.Value) (dx, dscale, doffset step.Value) {
		hat := mul(m.centred, wide(m.inverse, dy))
		g := mul(dy, along(m.scale, dy))
		inner := sub(sub(g, wide(mul(sum(g), over), g)), mul(hat, wide(mul(sum(mul(g, hat)), over), g)))
		return mul(inner, wide(m.inverse, dy)), columns(mul(dy, hat)), columns(dy)
	}
	heads4 := func(v step.Value) step.Value { // batch, heads, length, each
		return b.ok(b.Transpose(b.ok(b.Reshape(v, batch, length, heads, each)), 0, 2, 1, 3))
	}
	flat := func(v step.Value) step.Value {
		return b.ok(b.Reshape(b.ok(b.Transpose(v, 0, 2, 1, 3)), n, width))
	}

	x, dy := b.random(f32, n, width), b.random(f32, n, width)
	weight := func(in, out int) step.Value {
		return cast(mul(b.random(f32, in, out), scalar(0.02)))
	}
	wq, wk, wv, wo, w1, w2 := weight(width, width), weight(width, width), weight(width, width), weight(width, width), weight(width, hidden), weight(hidden, width)
	b1, b2 := b.random(f32, hidden), b.random(f32, width)

	// Forward.
	n1 := norm(x)
	h := cast(n1.y)
	q, k, v := heads4(dot(h, wq, [2]int{1, 0}, d)), heads4(dot(h, wk, [2]int{1, 0}, d)), heads4(dot(h, wv, [2]int{1, 0}, d))
	root := scalar(1 / float64(8))
	scores := mul(float(attend(q, k, [2]int{3, 3})), root)
	square := step.MakeShape(dtype.I32, batch, heads, length, length)
	mask := b.binary(step.GreaterOrEqual, b.ok(b.Iota(square, 2)), b.ok(b.Iota(square, 3)))
	p := b.softmax(b.ok(b.Where(mask, scores, scalar(-1e30))))
	ph := cast(p)
	o := flat(attend(ph, v, [2]int{3, 2}))
	x2 := add(x, float(dot(o, wo, [2]int{1, 0}, d)))
	n2 := norm(x2)
	h2 := cast(n2.y)
	a := float(dot(h2, w1, [2]int{1, 0}, d))
	a = add(a, along(b1, a))
	half := scalar(0.5)
	cdf := mul(add(b.unary(step.Erf, mul(a, scalar(0.7071067811865476))), scalar(1)), half)
	y := cast(mul(a, cdf))
	out := add(add(x2, float(dot(y, w2, [2]int{1, 0}, d))), along(b2, x2))

	// Backward.
	dyh := cast(dy)
	dw2 := dot(y, dyh, [2]int{0, 0}, f32)
	da := float(dot(dyh, w2, [2]int{1, 1}, d))
	density := mul(b.unary(step.Exp, mul(mul(a, a), scalar(-0.5))), scalar(0.3989422804014327))
	da = mul(da, add(cdf, mul(a, density)))
	dah := cast(da)
	dw1 := dot(h2, dah, [2]int{0, 0}, f32)
	dx2, dscale2, doffset2 := back(n2, float(dot(dah, w1, [2]int{1, 1}, d)))
	dx2 = add(dx2, dy)
	do := cast(dx2)
	dwo := dot(o, do, [2]int{0, 0}, f32)
	doh := heads4(dot(do, wo, [2]int{1, 1}, d))
	dv := attend(ph, doh, [2]int{2, 2})
	dp := float(attend(doh, v, [2]int{3, 3}))
	ds := cast(mul(mul(p, sub(dp, wide(sum(mul(dp, p)), dp))), root))
	dq, dk := flat(attend(ds, k, [2]int{3, 2})), flat(attend(ds, q, [2]int{2, 2}))
	dvf := flat(dv)
	dwq, dwk, dwv := dot(h, dq, [2]int{0, 0}, f32), dot(h, dk, [2]int{0, 0}, f32), dot(h, dvf, [2]int{0, 0}, f32)
	dh := add(add(float(dot(dq, wq, [2]int{1, 1}, d)), float(dot(dk, wk, [2]int{1, 1}, d))), float(dot(dvf, wv, [2]int{1, 1}, d)))
	dx, dscale1, doffset1 := back(n1, dh)
	dx = add(dx, dx2)
	return []step.Value{out, dx, dwq, dwk, dwv, dwo, dw1, dw2, columns(da), columns(dy), dscale1, doffset1, dscale2, doffset2}
}

func TestBlock(t *testing.T) {
	e := openTest(t)
	for d, slack := range map[dtype.DType]float64{dtype.F32: 500, dtype.BF16: 40} {
		t.Run(d.String(), func(t *testing.T) {
			b := newBuilder(t)
			b.compare(e, slack, b.block(d, 2, 8, 32, 2)...)
		})
	}
}

// Forward and backward of one block of a GPT, 16 heads, as large as peers/torch_step.py
// has it; a small one where kernels do not run on a GPU.
func BenchmarkBlock(b *testing.B) {
	e := openTest(b)
	_, small := e.launcher.(*shim)
	for _, v := range []struct {
		name  string
		d     dtype.DType
		tuned bool
	}{{"f32", dtype.F32, false}, {"bf16", dtype.BF16, false}, {"bf16-tuned", dtype.BF16, true}} {
		b.Run(v.name, func(b *testing.B) {
			d := v.d
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
			testkit.OK(b, g.SetOutputs(g.block(d, batch, length, width, heads)...))
			tasks, err := Fuse(g.Graph)
			testkit.OK(b, err)
			p := prepare(b, e, g.Graph, tasks, g.in)
			products := 0
			for _, c := range p.calls {
				if _, ok := c.k.(*gemms); ok {
					products++
				}
			}
			if products != 24 {
				b.Errorf("the library has %d of 24 products", products)
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
