package graph

import (
	"cmp"
	"slices"

	"github.com/pinion-gpu/pinion/dtype"
)

// Together is what ranks do together: Attr of an [AllReduce], a [ReduceScatter] and an
// [AllGather].
type Together struct {
	Mean  bool // sums are divided by the number of ranks
	Ranks int  // how many there are, where a shape depends on it
	Into  bool // behind what ranks give, operands are what results take the place of
	Pass  int  // of values that are gathered where they are read, each time anew: which time it is, from 1
}

// AllReduceOptions say what ranks make of their values.
type AllReduceOptions struct {
	Mean bool // their sum, divided by the number of ranks

	// Type is the floating-point type in which values of a wider one travel and are added
	// up: results are rounded to it. Default: 0, their own.
	Type dtype.DType
}

// narrow converts what travels in another type. It fails if that is none to add up in.
func (o AllReduceOptions) narrow(g *Graph, op Op, values []Value) ([]Value, error) {
	if o.Type == 0 {
		return values, nil
	}
	if o.Type != dtype.F16 && o.Type != dtype.BF16 && o.Type != dtype.F32 {
		return nil, bad(op, values, "values cannot travel in %v", o.Type)
	}
	types := typesOf(values)
	for i, t := range types {
		if t.IsFloat() && t.Size() > o.Type.Size() {
			types[i] = o.Type
		}
	}
	return g.converted(values, types)
}

func typesOf(values []Value) []dtype.DType {
	types := make([]dtype.DType, len(values))
	for i, v := range values {
		types[i] = v.Shape().Type
	}
	return types
}

// converted are values in these types.
func (g *Graph) converted(values []Value, types []dtype.DType) (list []Value, err error) {
	for i, v := range values {
		if types[i] != v.Shape().Type {
			if v, err = g.Convert(v, types[i]); err != nil {
				return nil, err
			}
		}
		list = append(list, v)
	}
	return list, nil
}

// reduced adds what ranks reduce together, in the type in which it travels, and gives results
// those of values.
func (g *Graph) reduced(op Op, o AllReduceOptions, ranks int, values []Value, result func(Shape) Shape) ([]Value, error) {
	sent, err := o.narrow(g, op, values)
	if err != nil {
		return nil, err
	}
	return g.converted(g.together(op, &Together{Mean: o.Mean, Ranks: ranks}, sent, result), typesOf(values))
}

// AllReduce adds a sum over ranks, or a mean: each rank gives values of the same shapes,
// and each gets results with the same bits. A graph that has one is compiled and run by
// all ranks ([step.Options].Ranks), which have the same graph.
//
// [step.Options]: https://pkg.go.dev/github.com/pinion-gpu/pinion/step#Options
func (g *Graph) AllReduce(o AllReduceOptions, values ...Value) ([]Value, error) {
	if err := g.checkReduced(AllReduce, o, values); err != nil {
		return nil, err
	}
	return g.reduced(AllReduce, o, 0, values, func(s Shape) Shape { return s })
}

// ReduceScatter adds the same, of which each of so many ranks gets its share: of the first
// axis, which is divided among them in their order.
func (g *Graph) ReduceScatter(o AllReduceOptions, ranks int, values ...Value) ([]Value, error) {
	if err := g.checkReduced(ReduceScatter, o, values); err != nil {
		return nil, err
	}
	for _, v := range values {
		if s := v.Shape(); ranks < 1 || s.Rank() == 0 || s.Dims[0]%ranks != 0 {
			return nil, bad(ReduceScatter, values, "the first axis cannot be shared by %d ranks", ranks)
		}
	}
	return g.reduced(ReduceScatter, o, ranks, values, func(s Shape) Shape {
		dims := slices.Clone(s.Dims)
		dims[0] /= ranks
		return Shape{s.Type, dims}
	})
}

// AllGather adds what so many ranks have, one behind the other along the first axis.
func (g *Graph) AllGather(ranks int, values ...Value) ([]Value, error) {
	if err := g.check(AllGather, values...); err != nil {
		return nil, err
	}
	for _, v := range values {
		if ranks < 1 || v.Shape().Rank() == 0 {
			return nil, bad(AllGather, values, "there is no first axis for %d ranks", ranks)
		}
	}
	return g.together(AllGather, &Together{Ranks: ranks}, values, func(s Shape) Shape {
		dims := slices.Clone(s.Dims)
		dims[0] *= ranks
		return Shape{s.Type, dims}
	}), nil
}

// AllGatherInto adds what so many ranks have, one behind the other, with the shape of into,
// which nothing is read of: the result may lie in its memory. Ranks have the same number of
// elements of it, rounded up: what the last ones have beyond it is left out.
func (g *Graph) AllGatherInto(ranks int, into, x Value) (Value, error) {
	if err := g.check(AllGather, into, x); err != nil {
		return Value{}, err
	}
	s := into.Shape()
	if ranks < 1 || s.Type != x.Shape().Type || (s.Size()+ranks-1)/ranks != x.Shape().Size() {
		return Value{}, bad(AllGather, []Value{into, x}, "the first is not made of %d such as the second", ranks)
	}
	return g.Append(AllGather, &Together{Ranks: ranks, Into: true}, []Shape{s}, x, into).Value(0), nil
}

// AllGatherLate adds what so many ranks have, one behind the other along the first axis, at
// this place: [Bucket] has it done shortly before, and not as soon as it can be. What is
// gathered in one pass, from 1 on, stays apart from what is gathered in another, so that
// nobody has to keep it from one to the next.
func (g *Graph) AllGatherLate(ranks, pass int, x Value) (Value, error) {
	v, err := g.AllGather(ranks, x)
	if err == nil && pass < 1 {
		err = bad(AllGather, []Value{x}, "pass %d", pass)
	}
	if err != nil {
		return Value{}, err
	}
	v[0].node.Attr.(*Together).Pass = pass
	return v[0], nil
}

func (g *Graph) checkReduced(op Op, o AllReduceOptions, values []Value) error {
	if err := g.check(op, values...); err != nil {
		return err
	}
	for _, v := range values {
		if t := v.Shape().Type; o.Mean && !t.IsFloat() || t.Size() == 2 && !t.IsFloat() {
			return bad(op, values, "numbers of type %v cannot be reduced so by ranks", t)
		}
	}
	return nil
}

// together adds an operation of ranks, whose results have the shapes that result gives.
func (g *Graph) together(op Op, t *Together, values []Value, result func(Shape) Shape) []Value {
	if len(values) == 0 {
		return nil
	}
	shapes := make([]Shape, len(values))
	for i, v := range values {
		shapes[i] = result(v.Shape())
	}
	n := g.Append(op, t, shapes, values...)
	results := make([]Value, len(values))
	for i := range results {
		results[i] = n.Value(i)
	}
	return results
}

// Bucket copies a graph with what ranks do together in buckets of some bytes: values of one
// type that are computed one after the other are reduced, or gathered, as one, so that
// ranks have few operations to do with each other, and the first while later values are
// computed. A bucket comes behind the last of its operands, and what reads its results
// behind that. One of [Graph.AllGatherLate] comes where the one before it is read first: so
// two of them are there at a time.
func Bucket(g *Graph, bytes int64) *Graph {
	b := &bucketer{g: g, level: map[*Node]int{}, of: map[Value]place{}, early: map[*Node]*bucket{}, due: map[any]int{}}
	if b.fill(bytes); len(b.buckets) == 0 {
		return g
	}
	return b.write()
}

// bucket is what ranks do as one. None of its operands is made of results of another.
type bucket struct {
	kind
	operands []Value
	into     []Value // whose place results take
	shapes   []Shape // of the results
	bytes    int64
	first    int // the first operation that it is made of, by number
	place    int // of one that comes late: the operation whose place it takes
}

// kind is what members of a bucket have in common.
type kind struct {
	op    Op
	level int // the most operations of ranks on a way to an operand
	Together
	element dtype.DType
}

// place is which of a bucket's results is that of an operation.
type place struct {
	*bucket
	index int
}

type bucketer struct {
	g       *Graph
	level   map[*Node]int
	buckets []*bucket
	of      map[Value]place   // where results of what ranks do are
	early   map[*Node]*bucket // what parameters become before they are gathered late, with the first bucket that reads it
	due     map[any]int       // when an operation, or a bucket, is computed
}

// fill puts what ranks do into buckets, in the order in which operands are computed.
func (b *bucketer) fill(bytes int64) {
	var results []Value
	for _, n := range b.g.nodes {
		level := 0
		for _, v := range n.Inputs {
			level = max(level, b.level[v.node])
		}
		if n.Op.Class() == Collective {
			for i := range n.Shapes {
				results = append(results, n.Value(i))
			}
			level++
		}
		b.level[n] = level
	}
	at := func(v Value) int {
		if v.node.late() {
			return v.node.id
		}
		return v.operand().node.id
	}
	slices.SortStableFunc(results, func(x, y Value) int { return cmp.Compare(at(x), at(y)) })
	last := map[kind]*bucket{}
	for _, v := range results {
		k := kind{v.node.Op, b.level[v.node], *v.node.Attr.(*Together), v.Shape().Type}
		n := max(v.Shape().Bytes(), v.operand().Shape().Bytes())
		o := last[k]
		if o == nil || o.bytes+n > bytes {
			o = &bucket{kind: k, first: v.node.id}
			b.buckets, last[k] = append(b.buckets, o), o
		}
		b.of[v] = place{o, len(o.operands)}
		o.operands, o.shapes, o.bytes = append(o.operands, v.operand()), append(o.shapes, v.Shape()), o.bytes+n
		if k.Into {
			o.into = append(o.into, v.node.Inputs[len(v.node.Shapes)+v.index])
		}
	}
	b.placeLate()
}

// placeLate has each bucket that comes late where the one before it would be.
func (b *bucketer) placeLate() {
	var late []*bucket
	for _, o := range b.buckets {
		if o.Pass > 0 {
			late = append(late, o)
		}
	}
	slices.SortStableFunc(late, func(x, y *bucket) int { return cmp.Compare(x.first, y.first) })
	for i, o := range late {
		o.place = late[max(i-1, 0)].first
		for _, v := range o.operands {
			if n := v.node; b.early[n] == nil && n.Op != Parameter && !slices.ContainsFunc(n.Inputs, func(v Value) bool { return v.node.Op != Parameter }) {
				b.early[n] = o
			}
		}
	}
}

// late reports whether the operation is done where it is, and not as soon as it can be.
func (n *Node) late() bool {
	t, ok := n.Attr.(*Together)
	return ok && t.Pass > 0
}

// operand is what a result of an operation of ranks is of.
func (v Value) operand() Value { return v.node.Inputs[v.index] }

// write writes the graph anew, each operation where it was, or as soon as what it reads
// is there.
func (b *bucketer) write() *Graph {
	var order []any
	for _, n := range b.g.nodes {
		if n.Op.Class() != Collective {
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
			n := out.Append(x.op, &x.Together, x.shapes, Translated(slices.Concat(x.operands, x.into), now)...)
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
		in, d = x.Inputs, b.slot(x.id)
		if o := b.early[x]; o != nil {
			d = min(d, b.slot(o.place)-1)
		}
	case *bucket:
		in = slices.Concat(x.operands, x.into)
		if x.Pass > 0 {
			d = b.slot(x.place)
		}
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

// slot is where an operation was, with room for others before the next.
func (b *bucketer) slot(id int) int { return id * 2 * (len(b.g.nodes) + 1) }
