package models

import (
	"math"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
)

// plus adds two values, in the wider one's type.
func (b *builder) plus(x, y graph.Value) graph.Value {
	t := x.Shape().Type
	if y.Shape().Type != t {
		t = b.full
	}
	z := b.as(t, b.add(b.wide(x), b.wide(y)))
	b.backward(func() {
		g := b.gradient(z)
		b.give(x, g)
		b.give(y, g)
	})
	return z
}

// linear multiplies rows by a weight, in the narrow type.
func (b *builder) linear(x, w graph.Value) graph.Value {
	y := b.dot(b.thin(x), b.thin(w), 1, 0, b.narrow)
	b.backward(func() {
		g := b.thin(b.gradient(y))
		b.give(w, b.dot(b.thin(x), g, 0, 0, b.full))
		b.give(x, b.dot(g, b.thin(w), 1, 1, b.narrow))
	})
	return y
}

// bias adds a number for each column.
func (b *builder) bias(x, w graph.Value) graph.Value {
	y := b.as(x.Shape().Type, b.add(b.wide(x), b.columns(w, x.Shape().Dims)))
	b.backward(func() {
		g := b.gradient(y)
		b.give(w, b.sum(b.wide(g), first(g.Shape().Rank()-1)...))
		b.give(x, g)
	})
	return y
}

const normEpsilon = 1e-5

// layerNorm normalises rows, in the full type.
func (b *builder) layerNorm(x, scale, offset graph.Value) graph.Value {
	dims := x.Shape().Dims
	over := 1 / float64(dims[len(dims)-1])
	mean := b.times(b.rowSum(b.wide(x)), over)
	centred := b.sub(b.wide(x), b.rows(mean, dims))
	inverse := b.unary(graph.Rsqrt, b.add(b.times(b.rowSum(b.mul(centred, centred)), over), b.number(normEpsilon)))
	y := b.add(b.mul(b.mul(centred, b.rows(inverse, dims)), b.columns(scale, dims)), b.columns(offset, dims))
	b.backward(func() {
		dy, s := b.gradient(y), b.saved(x, mean, inverse)
		hat := b.mul(b.sub(b.wide(s[0]), b.rows(s[1], dims)), b.rows(s[2], dims))
		g := b.mul(dy, b.columns(scale, dims))
		along := b.times(b.rowSum(b.mul(g, hat)), over)
		dx := b.sub(b.sub(g, b.rows(b.times(b.rowSum(g), over), dims)), b.mul(hat, b.rows(along, dims)))
		b.give(x, b.mul(dx, b.rows(s[2], dims)))
		b.give(scale, b.sum(b.mul(dy, hat), first(len(dims)-1)...))
		b.give(offset, b.sum(dy, first(len(dims)-1)...))
	})
	return y
}

// rmsNorm divides rows by the root of their mean square, in the full type.
func (b *builder) rmsNorm(x, scale graph.Value) graph.Value {
	dims := x.Shape().Dims
	over := 1 / float64(dims[len(dims)-1])
	wide := b.wide(x)
	inverse := b.unary(graph.Rsqrt, b.add(b.times(b.rowSum(b.mul(wide, wide)), over), b.number(normEpsilon)))
	y := b.mul(b.mul(wide, b.rows(inverse, dims)), b.columns(scale, dims))
	b.backward(func() {
		dy, s := b.gradient(y), b.saved(x, inverse)
		hat := b.mul(b.wide(s[0]), b.rows(s[1], dims))
		g := b.mul(dy, b.columns(scale, dims))
		along := b.times(b.rowSum(b.mul(g, hat)), over)
		b.give(x, b.mul(b.sub(g, b.mul(hat, b.rows(along, dims))), b.rows(s[1], dims)))
		b.give(scale, b.sum(b.mul(dy, hat), first(len(dims)-1)...))
	})
	return y
}

// gelu adds a bias and is x times the share of a normal distribution below x.
func (b *builder) gelu(x, w graph.Value) graph.Value {
	dims := x.Shape().Dims
	parts := func(x graph.Value) (a, below graph.Value) {
		a = b.add(b.wide(x), b.columns(w, dims))
		return a, b.times(b.add(b.unary(graph.Erf, b.times(a, math.Sqrt2/2)), b.number(1)), 0.5)
	}
	a, below := parts(x)
	y := b.as(x.Shape().Type, b.mul(a, below))
	b.backward(func() {
		a, below := parts(b.saved(x)[0])
		density := b.times(b.unary(graph.Exp, b.times(b.mul(a, a), -0.5)), 1/math.Sqrt(2*math.Pi))
		g := b.as(x.Shape().Type, b.mul(b.wide(b.gradient(y)), b.add(below, b.mul(a, density))))
		b.give(x, g)
		b.give(w, b.sum(b.wide(g), first(len(dims)-1)...))
	})
	return y
}

// swiglu is x times its logistic function, times y.
func (b *builder) swiglu(x, y graph.Value) graph.Value {
	wide := b.wide(x)
	z := b.as(x.Shape().Type, b.mul(b.mul(wide, b.unary(graph.Logistic, wide)), b.wide(y)))
	b.backward(func() {
		s := b.saved(x, y)
		a, share := b.wide(s[0]), b.unary(graph.Logistic, b.wide(s[0]))
		g := b.wide(b.gradient(z))
		slope := b.mul(share, b.add(b.number(1), b.mul(a, b.sub(b.number(1), share))))
		b.give(x, b.as(x.Shape().Type, b.mul(b.mul(g, b.wide(s[1])), slope)))
		b.give(y, b.as(y.Shape().Type, b.mul(g, b.mul(a, share))))
	})
	return z
}

// relu is x where that is above zero.
func (b *builder) relu(x graph.Value) graph.Value {
	y := b.binary(graph.Max, x, b.filled(0, graph.MakeShape(x.Shape().Type)))
	b.backward(func() {
		g := b.gradient(y)
		zero := b.filled(0, graph.MakeShape(g.Shape().Type))
		above := b.binary(graph.Greater, b.saved(y)[0], zero)
		b.give(x, b.ok(b.g.Where(above, g, zero)))
	})
	return y
}

// embed takes a row of a table for each number.
func (b *builder) embed(table, at graph.Value) graph.Value {
	rows, width := table.Shape().Dims[0], table.Shape().Dims[1]
	y := b.ok(b.g.Gather(table, at, graph.GatherAxes{IndexVector: 1, StartIndex: []int{0}, Sizes: []int{1, width}, Collapsed: []int{0}, Offset: []int{1}}))
	b.backward(func() {
		none := b.filled(0, graph.MakeShape(b.full, rows, width))
		b.give(table, b.ok(b.g.Scatter(graph.ScatterSum, none, at, b.wide(b.gradient(y)), graph.ScatterAxes{IndexVector: 1, StartIndex: []int{0}, Window: []int{1}, Inserted: []int{0}})))
	})
	return y
}

// places adds a table's rows to the tokens of each sequence of a batch.
func (b *builder) places(x, table graph.Value, batch int) graph.Value {
	length, width := table.Shape().Dims[0], table.Shape().Dims[1]
	wide := b.ok(b.g.BroadcastInDim(table, []int{batch, length, width}, []int{1, 2}))
	y := b.add(b.wide(x), b.reshape(wide, batch*length, width))
	b.backward(func() {
		g := b.gradient(y)
		b.give(x, g)
		b.give(table, b.sum(b.reshape(b.wide(g), batch, length, width), 0))
	})
	return y
}

// crossEntropy is the mean of the negative logarithm of what softmax gives the targets.
func (b *builder) crossEntropy(logits, targets graph.Value) graph.Value {
	dims := logits.Shape().Dims
	hot := b.binary(graph.Equal, b.ok(b.g.Iota(graph.MakeShape(dtype.I32, dims...), 1)), b.rows(targets, dims))
	wide := b.wide(logits)
	top := b.ok(b.g.Reduce(graph.ReduceMax, wide, 1))
	total := b.rowSum(b.unary(graph.Exp, b.sub(wide, b.rows(top, dims))))
	picked := b.rowSum(b.ok(b.g.Where(hot, wide, b.number(0))))
	loss := b.times(b.sum(b.sub(b.add(b.unary(graph.Log, total), top), picked)), 1/float64(dims[0]))
	b.backward(func() {
		s := b.saved(logits, top, total)
		p := b.binary(graph.Div, b.unary(graph.Exp, b.sub(b.wide(s[0]), b.rows(s[1], dims))), b.rows(s[2], dims))
		g := b.times(b.sub(p, b.as(b.full, hot)), 1/float64(dims[0]))
		b.give(logits, b.as(logits.Shape().Type, g))
	})
	return loss
}
