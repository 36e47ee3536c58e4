package spmd

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// direct is the rank's part of a value that is whole on each. What comes from nowhere, or
// repeats fewer numbers, is made as a part: the whole need never be there.
func (w *writer) direct(v graph.Value, axis int) graph.Value {
	n := v.Node()
	if !w.free(v) {
		return w.part(w.as(v, whole), axis)
	}
	s := local(v.Shape(), layout(axis), w.ranks)
	switch n.Op {
	case graph.Iota:
		return w.iota(v.Shape(), int(n.Attr.(graph.Axis)), axis)
	case graph.BroadcastInDim:
		in := whole
		if i := slices.Index(n.Attr.(graph.Axes), axis); i >= 0 {
			in = along(n.Inputs[0].Shape(), v.Shape(), i, axis)
		}
		return w.out.Append(n.Op, n.Attr, []graph.Shape{s}, w.as(n.Inputs[0], in)).Value(0)
	}
	in := make([]graph.Value, len(n.Inputs))
	for i, x := range n.Inputs {
		in[i] = w.as(x, along(x.Shape(), v.Shape(), axis, axis))
	}
	return w.out.Append(n.Op, n.Attr, []graph.Shape{s}, in...).Value(0)
}

// free reports whether the parts of a whole value are made without the whole.
func (w *writer) free(v graph.Value) bool {
	free, known := w.isFree[v]
	if known {
		return free
	}
	switch n := v.Node(); {
	case w.gradient[v] || w.forms[v][0].layout != whole:
	case n.Op == graph.Iota:
		free = true
	case n.Op == graph.BroadcastInDim:
		free = n.Inputs[0].Shape().Size() < v.Shape().Size()
	case n.Op.Class() == graph.Elementwise:
		free = !slices.ContainsFunc(n.Inputs, func(x graph.Value) bool { return x.Shape().Size() > 1 && !w.free(x) })
	}
	w.isFree[v] = free
	return free
}

// along is how an operand is read whose axis i becomes an axis of a result that is split.
func along(operand, result graph.Shape, i, axis int) layout {
	if operand.Rank() == 0 || operand.Dims[i] != result.Dims[axis] {
		return whole // it is repeated
	}
	return layout(i)
}

// iota is the rank's part of numbers that count along an axis.
func (w *writer) iota(s graph.Shape, counted, axis int) graph.Value {
	dims := local(s, layout(axis), w.ranks).Dims
	if counted != axis {
		return w.keep(w.out.Iota(graph.MakeShape(s.Type, dims...), counted))
	}
	row := w.part(w.keep(w.out.Iota(graph.MakeShape(s.Type, s.Dims[axis]), 0)), 0)
	return w.keep(w.out.BroadcastInDim(row, dims, []int{axis}))
}
