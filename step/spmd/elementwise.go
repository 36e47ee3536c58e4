package spmd

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// elementwise writes an operation that works element by element. Where an operand is split,
// it is done of parts.
func (w *writer) elementwise(n *graph.Node) {
	in := make([]layout, len(n.Inputs))
	for i, v := range n.Inputs {
		in[i] = w.layout(v)
	}
	if w.linear(n) {
		w.add(n, n.Attr, in, partial)
		return
	}
	to := w.common(n, in)
	for i, v := range n.Inputs {
		in[i] = whole
		if to.split() {
			in[i] = along(v.Shape(), n.Shapes[0], int(to), int(to))
		}
	}
	w.add(n, n.Attr, in, to)
}

// common is the layout of the result of an element-wise operation: that of the weight that it
// is for, or along the axis that the most bytes of operands are split along.
func (w *writer) common(n *graph.Node, in []layout) layout {
	if to := w.hint(n.Value(0)); to.split() && slices.ContainsFunc(in, func(l layout) bool { return l != whole }) {
		return to
	}
	to, bytes := whole, make([]int64, n.Shapes[0].Rank())
	for i, l := range in {
		if l.split() {
			bytes[l] += n.Inputs[i].Shape().Bytes()
			if to == whole || bytes[l] > bytes[to] {
				to = l
			}
		}
	}
	return to
}

// linear reports whether summands of operands make summands of the result, and are best left
// as they are: nothing needs the sums over ranks before.
func (w *writer) linear(n *graph.Node) bool {
	switch n.Op {
	case graph.Neg, graph.Convert, graph.Add, graph.Sub:
		return !slices.ContainsFunc(n.Inputs, func(v graph.Value) bool { return !w.staysPartial(v) || !linearIn(n, v) })
	case graph.Mul:
		x, y := n.Inputs[0], n.Inputs[1]
		return w.staysPartial(x) && w.layout(y) == whole && linearIn(n, x) || w.staysPartial(y) && w.layout(x) == whole && linearIn(n, y)
	}
	return false
}

// staysPartial reports whether a value is partial, and everything that reads it takes
// summands. Otherwise it is added up over ranks before the first reads it.
func (w *writer) staysPartial(v graph.Value) bool {
	if w.layout(v) != partial || w.wanted[v] || w.hint(v).split() {
		return false
	}
	return !slices.ContainsFunc(w.readers[v], func(n *graph.Node) bool {
		return !linearIn(n, v) || n.Op == graph.ReduceSum && len(w.readers[v]) > 1
	})
}

// linearIn reports whether an operation takes summands of an operand for summands of its
// result. A conversion may: to a wider type, which rounds nothing.
func linearIn(n *graph.Node, v graph.Value) bool {
	switch n.Op {
	case graph.Neg, graph.Add, graph.Sub, graph.Identity, graph.Reshape, graph.Transpose, graph.ReduceSum:
		return true
	case graph.Convert:
		from, to := v.Shape().Type, n.Shapes[0].Type
		return from.IsFloat() && to.IsFloat() && to.Size() > from.Size()
	case graph.Mul:
		other := n.Inputs[0]
		if other == v {
			other = n.Inputs[1]
		}
		return other != v && scalar(other)
	}
	return false
}

// scalar reports whether all elements of a value are the same number.
func scalar(v graph.Value) bool {
	n := v.Node()
	return v.Shape().Size() == 1 || n.Op == graph.BroadcastInDim && n.Inputs[0].Shape().Size() == 1
}
