package models

import (
	"math"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
)

// heads is how rows of tokens become heads and come back.
type heads struct {
	batch, length, heads, each int
}

func (h heads) width() int { return h.heads * h.each }

// apart has the tokens of each head together: batch, heads, length, each.
func (b *builder) apart(x graph.Value, h heads) graph.Value {
	return b.transpose(b.reshape(x, h.batch, h.length, h.heads, h.each), 0, 2, 1, 3)
}

// together puts the heads of each token side by side: rows of tokens.
func (b *builder) together(x graph.Value, h heads) graph.Value {
	return b.reshape(b.transpose(x, 0, 2, 1, 3), h.batch*h.length, h.width())
}

// each multiplies the matrices of each head, over an axis of each.
func (b *builder) each(x, y graph.Value, i, j int) graph.Value {
	return b.ok(b.g.DotGeneral(x, y, graph.DotAxes{Batch: [2][]int{{0, 1}, {0, 1}}, Contracted: [2][]int{{i}, {j}}, Result: b.narrow}))
}

// attention is causal, of rows of tokens.
func (b *builder) attention(q, k, v graph.Value, h heads, plain bool) graph.Value {
	if plain {
		return b.plainAttention(q, k, v, h)
	}
	o := graph.AttentionOptions{HeadsBehind: true, Causal: true}
	four := func(x graph.Value) graph.Value { return b.reshape(x, h.batch, h.length, h.heads, h.each) }
	rows := func(x graph.Value) graph.Value { return b.reshape(x, h.batch*h.length, h.width()) }
	out, sums, err := b.g.Attention(four(q), four(k), four(v), o)
	b.must(err)
	y := rows(out)
	b.backward(func() {
		dq, dk, dv, err := b.g.AttentionBackward(four(q), four(k), four(v), out, sums, four(b.thin(b.gradient(y))), o)
		b.must(err)
		b.give(q, rows(dq))
		b.give(k, rows(dk))
		b.give(v, rows(dv))
	})
	return y
}

// plainAttention has the scores and their softmax in memory.
func (b *builder) plainAttention(q, k, v graph.Value, h heads) graph.Value {
	root := 1 / math.Sqrt(float64(h.each))
	square := []int{h.batch, h.heads, h.length, h.length}
	before := b.binary(graph.GreaterOrEqual, b.ok(b.g.Iota(graph.MakeShape(dtype.I32, square...), 2)), b.ok(b.g.Iota(graph.MakeShape(dtype.I32, square...), 3)))
	qh, kh, vh := b.apart(q, h), b.apart(k, h), b.apart(v, h)
	scores := b.times(b.wide(b.each(qh, kh, 3, 3)), root)
	scores = b.ok(b.g.Where(before, scores, b.number(-1e30)))
	e := b.unary(graph.Exp, b.sub(scores, b.rows(b.ok(b.g.Reduce(graph.ReduceMax, scores, 3)), square)))
	p := b.thin(b.binary(graph.Div, e, b.rows(b.rowSum(e), square)))
	y := b.together(b.each(p, vh, 3, 2), h)
	b.backward(func() {
		g := b.apart(b.thin(b.gradient(y)), h)
		p := b.saved(p)[0]
		b.give(v, b.together(b.each(p, g, 2, 2), h))
		wide, dp := b.wide(p), b.wide(b.each(g, vh, 3, 3))
		ds := b.mul(wide, b.sub(dp, b.rows(b.rowSum(b.mul(dp, wide)), square)))
		ds = b.thin(b.times(ds, root))
		b.give(q, b.together(b.each(ds, kh, 3, 2), h))
		b.give(k, b.together(b.each(ds, qh, 2, 2), h))
	})
	return y
}

// rotary turns pairs of each head's numbers by angles that grow with a token's place
// (Su et al., 2021), pairs being halves of a head apart.
func (b *builder) rotary(x graph.Value, h heads) graph.Value {
	half := h.each / 2
	angles := make([]graph.Value, 2)
	dims := []int{h.length, half}
	place := b.as(b.full, b.ok(b.g.Iota(graph.MakeShape(dtype.I32, dims...), 0)))
	number := b.as(b.full, b.ok(b.g.Iota(graph.MakeShape(dtype.I32, dims...), 1)))
	angle := b.mul(place, b.unary(graph.Exp, b.times(number, -math.Log(10000)/float64(half))))
	for i, op := range []graph.Op{graph.Cos, graph.Sin} {
		angles[i] = b.ok(b.g.BroadcastInDim(b.unary(op, angle), []int{h.batch, h.length, h.heads, half}, []int{1, 3}))
	}
	turn := func(x graph.Value, back bool) graph.Value {
		four := b.reshape(x, h.batch, h.length, h.heads, h.each)
		part := func(from int) graph.Value {
			return b.wide(b.ok(b.g.Slice(four, []int{0, 0, 0, from}, []int{h.batch, h.length, h.heads, from + half}, nil)))
		}
		low, high, sine := part(0), part(half), angles[1]
		if back {
			sine = b.unary(graph.Neg, sine)
		}
		low, high = b.sub(b.mul(low, angles[0]), b.mul(high, sine)), b.add(b.mul(high, angles[0]), b.mul(low, sine))
		t := x.Shape().Type
		return b.reshape(b.ok(b.g.Concatenate(3, b.as(t, low), b.as(t, high))), x.Shape().Dims...)
	}
	y := turn(x, false)
	b.backward(func() { b.give(x, turn(b.gradient(y), true)) })
	return y
}
