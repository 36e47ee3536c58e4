package graph

import (
	"cmp"
	"slices"
)

// AllReduceOptions say what ranks make of their values: Attr of an [AllReduce].
type AllReduceOptions struct {
	Mean bool // their sum, divided by the number of ranks
}

// AllReduce adds a sum over ranks, or a mean: each rank gives values of the same shapes,
// and each gets results with the same bits. A graph that has one is compiled and run by
// all ranks ([step.Options].Ranks), which have the same graph.
//
// [step.Options]: https://pkg.go.dev/github.com/pinion-gpu/pinion/step#Options
func (g *Graph) AllReduce(o AllReduceOptions, values ...Value) ([]Value, error) {
	if err := g.check(AllReduce, values...); err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, bad(AllReduce, nil, "there is nothing to reduce")
	}
	shapes := make([]Shape, len(values))
	for i, v := range values {
		shapes[i] = v.Shape()
		if t := shapes[i].Type; o.Mean && !t.IsFloat() || t.Size() == 2 && !t.IsFloat() {
			return nil, bad(AllReduce, values, "numbers of type %v cannot be reduced so by ranks", t)
		}
	}
	n := g.Append(AllReduce, &o, shapes, values...)
	results := make([]Value, len(values))
	for i := range results {
		results[i] = n.Value(i)
	}
	return results, nil
}

// Bucket copies a graph with its sums over ranks in buckets of some bytes: values of one
// type that are computed one after the other are reduced together, so that ranks have few
// operations to do with each other, and the first while later values are computed. A
// bucket comes behind the last of its operands, and what reads its results behind that.
func Bucket(g *Graph, bytes int64) *Graph {
	b := &bucketer{g: g, level: map[*Node]int{}, of: map[Value]place{}, due: map[any]int{}}
	if b.fill(bytes); len(b.buckets) == 0 {
		return g
	}
	return b.write()
}

// bucket is values that are reduced together. None is made of results of another.
type bucket struct {
	level  int // the most reductions on a way to its operands
	mean   bool
	shape  Shape // what has the type of its operands, without axes
	values []Value
	bytes  int64
}

// place is which of a bucket's values is that of a reduction.
type place struct {
	*bucket
	index int
}

type bucketer struct {
	g       *Graph
	level   map[*Node]int
	buckets []*bucket
	of      map[Value]place // where results of reductions are
	due     map[any]int     // when an operation, or a bucket, is computed
}

// fill puts what is reduced into buckets, in the order in which it is computed.
func (b *bucketer) fill(bytes int64) {
	var results []Value
	for _, n := range b.g.nodes {
		level := 0
		for _, v := range n.Inputs {
			level = max(level, b.level[v.node])
		}
		if n.Op == AllReduce {
			for i := range n.Inputs {
				results = append(results, n.Value(i))
			}
			level++
		}
		b.level[n] = level
	}
	slices.SortStableFunc(results, func(x, y Value) int { return cmp.Compare(x.operand().node.id, y.operand().node.id) })
	for _, v := range results {
		x := &bucket{level: b.level[v.node], mean: v.node.Attr.(*AllReduceOptions).Mean, shape: Shape{Type: v.Shape().Type}}
		n := v.Shape().Bytes()
		o := b.last(x)
		if o == nil || o.bytes+n > bytes {
			o = x
			b.buckets = append(b.buckets, x)
		}
		b.of[v] = place{o, len(o.values)}
		o.values, o.bytes = append(o.values, v.operand()), o.bytes+n
	}
}

// last is the newest bucket for values like those of x.
func (b *bucketer) last(x *bucket) *bucket {
	for _, o := range slices.Backward(b.buckets) {
		if o.level == x.level && o.mean == x.mean && o.shape.Equal(x.shape) {
			return o
		}
	}
	return nil
}

// operand is what a result of a reduction is of.
func (v Value) operand() Value { return v.node.Inputs[v.index] }

// write writes the graph anew, each operation where it was, or as soon as what it reads
// is there.
func (b *bucketer) write() *Graph {
	var order []any
	for _, n := range b.g.nodes {
		if n.Op != AllReduce {
			order = append(order, n)
		}
	}
	for _, o := range b.buckets {
		order = append(order, o)
	}
	slices.SortStableFunc(order, func(x, y any) int { return cmp.Compare(b.dueOf(x), b.dueOf(y)) })
	out, now := New(b.g.name), map[Value]Value{}
	for _, x := range order {
		switch x := x.(type) {
		case *Node:
			out.Copy(x, now)
		case *bucket:
			in := Translated(x.values, now)
			shapes := make([]Shape, len(in))
			for i, v := range in {
				shapes[i] = v.Shape()
			}
			n := out.Append(AllReduce, &AllReduceOptions{x.mean}, shapes, in...)
			for v, p := range b.of {
				if p.bucket == x {
					now[v] = n.Value(p.index)
				}
			}
		}
	}
	out.outputs = Translated(b.g.outputs, now)
	return out
}

// dueOf is a number that is larger than those of everything that x is made of, and that
// keeps the order of the graph otherwise.
func (b *bucketer) dueOf(x any) int {
	if d, ok := b.due[x]; ok {
		return d
	}
	in, d := []Value(nil), 0
	switch x := x.(type) {
	case *Node:
		in, d = x.Inputs, x.id*2*(len(b.g.nodes)+1)
	case *bucket:
		in = x.values
	}
	for _, v := range in {
		var from any = v.node
		if p, ok := b.of[v]; ok {
			from = p.bucket
		}
		d = max(d, b.dueOf(from)+1)
	}
	b.due[x] = d
	return d
}
