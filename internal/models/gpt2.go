package models

import (
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
)

// GPT2 describes the forward pass of GPT-2 (Radford et al., 2019) for one token, with a
// cache of keys and values. The zero value is the model of 124M weights.
type GPT2 struct {
	Layers, Width, Heads int // default: 12, 768, 12
	Length               int // tokens that the cache has room for; default: 1024
	Vocabulary           int // default: 50257

	// Type is that of weights, of the cache and of products: F32 (default), BF16 or F64.
	Type dtype.DType
}

// Model makes the graph. Parameters are the token, i32[1], its place, i32, the weights,
// and the caches. Results are the token that is the likeliest to come next, i32[1], and
// what takes the place of its place and of the caches.
func (c GPT2) Model() (*Model, error) {
	for n, orElse := range map[*int]int{&c.Layers: 12, &c.Width: 768, &c.Heads: 12, &c.Length: 1024, &c.Vocabulary: 50257} {
		if *n == 0 {
			*n = orElse
		}
		if *n < 1 {
			return nil, fmt.Errorf("models: %w: sizes have to be above 0: %+v", errs.ErrArgument, c)
		}
	}
	if c.Width%c.Heads != 0 {
		return nil, fmt.Errorf("models: %w: a width of %d is not %d heads of the same width", errs.ErrArgument, c.Width, c.Heads)
	}
	return build(fmt.Sprintf("GPT-2 %d x %d", c.Layers, c.Width), c.Type, c.add)
}

func (c GPT2) add(b *builder) {
	token := b.batch("token", graph.MakeShape(dtype.I32, 1), integers(c.Vocabulary))
	place := b.input("place", graph.MakeShape(dtype.I32), zeros)
	weight := func(name string, how initial, dims ...int) graph.Value {
		b.model.Weights += int64(graph.MakeShape(b.narrow, dims...).Size())
		return b.input(name, graph.MakeShape(b.narrow, dims...), how)
	}
	linear := func(name string, x graph.Value, out int) graph.Value {
		w := weight(name, random(0.02), x.Shape().Dims[1], out)
		return b.bias(b.linear(x, w), b.wide(weight(name+" offset", zeros, out)))
	}
	norm := func(name string, x graph.Value) graph.Value {
		return b.layerNorm(x, b.wide(weight(name+": scale", ones, c.Width)), b.wide(weight(name+": offset", zeros, c.Width)))
	}
	table := weight("tokens' table", random(0.02), c.Vocabulary, c.Width)
	x := b.wide(b.embed(table, token))
	x = b.add(x, b.wide(b.embed(weight("places' table", random(0.02), c.Length, c.Width), b.reshape(place, 1))))
	var caches [][2]graph.Value
	for i := range c.Layers {
		h, attended := fmt.Sprintf("%d: ", i), [2]graph.Value{}
		qkv := b.reshape(linear(h+"attention", norm(h+"norm 1", x), 3*c.Width), 3, c.Heads, c.Width/c.Heads)
		part := func(i int, dims ...int) graph.Value {
			return b.reshape(b.ok(b.g.Slice(qkv, []int{i, 0, 0}, []int{i + 1, c.Heads, c.Width / c.Heads}, nil)), dims...)
		}
		for j, name := range []string{"keys", "values"} {
			cache := b.input(h+name, graph.MakeShape(b.narrow, c.Heads, c.Length, c.Width/c.Heads), zeros)
			zero := b.filled(0, graph.MakeShape(dtype.I32))
			attended[j] = b.ok(b.g.DynamicUpdateSlice(cache, part(1+j, c.Heads, 1, c.Width/c.Heads), []graph.Value{zero, place, zero}))
			caches = append(caches, [2]graph.Value{cache, attended[j]})
		}
		a := b.cached(part(0, c.Heads, c.Width/c.Heads), attended[0], attended[1], place)
		x = b.plus(x, linear(h+"out", b.reshape(a, 1, c.Width), c.Width))
		up := linear(h+"up", norm(h+"norm 2", x), 4*c.Width)
		x = b.plus(x, linear(h+"down", b.geluTanh(up), c.Width))
	}
	logits := b.dot(b.thin(norm("norm", x)), table, 1, 1, b.full)
	b.output(b.ok(b.g.ArgMinMax(graph.ArgMax, logits, 1, dtype.I32)))
	next := b.binary(graph.Add, place, b.filled(1, graph.MakeShape(dtype.I32)))
	b.replace(place, b.binary(graph.Min, next, b.filled(float64(c.Length-1), graph.MakeShape(dtype.I32))))
	for _, c := range caches {
		b.replace(c[0], c[1])
	}
}

// cached is attention of one token, of each head a row, to what the caches have up to its
// place.
func (b *builder) cached(q, keys, values, place graph.Value) graph.Value {
	dims := keys.Shape().Dims[:2]
	scores := b.ok(b.g.DotGeneral(q, keys, graph.DotAxes{Batch: [2][]int{{0}, {0}}, Contracted: [2][]int{{1}, {2}}, Result: b.narrow}))
	scores = b.times(b.wide(scores), 1/math.Sqrt(float64(q.Shape().Dims[1])))
	before := b.binary(graph.LessOrEqual, b.ok(b.g.Iota(graph.MakeShape(dtype.I32, dims...), 1)), place)
	scores = b.ok(b.g.Where(before, scores, b.number(-1e30)))
	e := b.unary(graph.Exp, b.sub(scores, b.rows(b.ok(b.g.Reduce(graph.ReduceMax, scores, 1)), dims)))
	p := b.thin(b.binary(graph.Div, e, b.rows(b.rowSum(e), dims)))
	return b.ok(b.g.DotGeneral(p, values, graph.DotAxes{Batch: [2][]int{{0}, {0}}, Contracted: [2][]int{{1}, {1}}, Result: b.narrow}))
}

// geluTanh is what GPT-2 has for [builder.gelu].
func (b *builder) geluTanh(x graph.Value) graph.Value {
	a := b.wide(x)
	inner := b.times(b.add(a, b.times(b.mul(a, b.mul(a, a)), 0.044715)), math.Sqrt(2/math.Pi))
	return b.as(x.Shape().Type, b.mul(b.times(a, 0.5), b.add(b.unary(graph.Tanh, inner), b.number(1))))
}
