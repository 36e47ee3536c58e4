package spmd

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// as is a value in a layout, which is made of what there is of it, once.
func (w *writer) as(v graph.Value, to layout) graph.Value {
	f := w.forms[v]
	if x, ok := f.as(to); ok {
		return x
	}
	x := w.converted(v, f, to)
	w.forms[v] = append(w.forms[v], form{to, x})
	return x
}

func (w *writer) converted(v graph.Value, f forms, to layout) graph.Value {
	from := f.layout()
	if to.split() {
		switch {
		case from == partial:
			return w.scatter(v, f[0].value, int(to))
		case from == whole && !w.gradient[v]:
			return w.direct(v, int(to))
		}
		return w.part(w.as(v, whole), int(to))
	}
	if from.split() {
		x, _ := f.as(from)
		return w.gather(v, x, int(from))
	}
	if n := v.Node(); w.seesThrough(n) && !w.gradient[v] {
		return w.out.Append(n.Op, n.Attr, n.Shapes, w.as(n.Inputs[0], whole)).Value(0)
	}
	return w.sum(v, f[0].value)
}

// seesThrough reports whether a partial result is the same numbers as the operand, so that
// the sum is made of that: of fewer bytes, or not twice.
func (w *writer) seesThrough(n *graph.Node) bool {
	switch n.Op {
	case graph.Identity, graph.Reshape, graph.Transpose, graph.Convert:
		return w.forms[n.Inputs[0]][0].layout == partial
	}
	return false
}

// part is the rank's part of what is there as a whole. This, and nothing else, differs
// between the graphs of ranks. The barrier keeps passes from merging it with another slice
// that one rank happens to have, so that graphs stay alike, and all ranks do the same
// operations together in the same order.
func (w *writer) part(x graph.Value, axis int) graph.Value {
	x = w.one(w.out.OptimizationBarrier(x))
	s := x.Shape()
	starts, limits := make([]int, s.Rank()), slices.Clone(s.Dims)
	each := s.Dims[axis] / w.ranks
	starts[axis], limits[axis] = w.rank*each, (w.rank+1)*each
	return w.keep(w.out.Slice(x, starts, limits, nil))
}

// sum adds up what ranks have of a value.
func (w *writer) sum(v, x graph.Value) graph.Value {
	if x.Shape().Size() == 0 {
		return x
	}
	// Ranks say how many there have to be, which [graph.Graph.AllReduce] leaves open.
	return w.together(v, w.out.Append(graph.AllReduce, &graph.Together{Ranks: w.ranks}, []graph.Shape{x.Shape()}, x).Value(0))
}

// scatter adds up what ranks have of a value, of which each gets its part along an axis.
func (w *writer) scatter(v, x graph.Value, axis int) graph.Value {
	s := v.Shape()
	dims := local(s, layout(axis), w.ranks).Dims
	if s.Size() == 0 {
		return w.reshape(x, dims)
	}
	if before := product(s.Dims[:axis]); before > 1 { // parts have to lie one behind the other
		x = w.reshape(x, []int{before, w.ranks, product(s.Dims[axis:]) / w.ranks})
		x = w.reshape(w.transpose(x, 1, 0, 2), s.Dims)
	}
	x = w.reshape(x, []int{w.ranks, s.Size() / w.ranks})
	x = w.together(v, w.one(w.out.ReduceScatter(graph.AllReduceOptions{}, w.ranks, x)))
	return w.reshape(x, dims)
}

// gather puts together the parts along an axis that ranks have of a value.
func (w *writer) gather(v, x graph.Value, axis int) graph.Value {
	s := v.Shape()
	if s.Size() == 0 {
		return w.reshape(x, s.Dims)
	}
	before := product(s.Dims[:axis])
	all := w.all(v, w.reshape(x, []int{x.Shape().Size()}))
	if before > 1 {
		all = w.reshape(all, []int{w.ranks, before, x.Shape().Size() / before})
		all = w.transpose(all, 1, 0, 2)
	}
	return w.reshape(all, s.Dims)
}

// all is what ranks have for a value, one behind the other.
func (w *writer) all(v, x graph.Value) graph.Value {
	return w.together(v, w.one(w.out.AllGather(w.ranks, x)))
}

// together notes for the report which value an operation of ranks is for.
func (w *writer) together(v, x graph.Value) graph.Value {
	w.collectives[x.Node()] = v
	return x
}

func (w *writer) one(list []graph.Value, err error) graph.Value {
	if err != nil {
		return w.keep(graph.Value{}, err)
	}
	return list[0]
}

func (w *writer) keep(v graph.Value, err error) graph.Value {
	if w.err == nil {
		w.err = err
	}
	return v
}

func (w *writer) reshape(x graph.Value, dims []int) graph.Value {
	if slices.Equal(x.Shape().Dims, dims) {
		return x
	}
	return w.keep(w.out.Reshape(x, dims...))
}

func (w *writer) transpose(x graph.Value, order ...int) graph.Value {
	return w.keep(w.out.Transpose(x, order...))
}
