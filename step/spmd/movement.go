package spmd

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// move writes an operation whose first operand decides: an axis of that becomes one of the
// result. The others are numbers, which are whole.
func (w *writer) move(n *graph.Node) {
	x := n.Inputs[0]
	in := slices.Repeat([]layout{whole}, len(n.Inputs))
	switch l := w.layout(x); {
	case l == partial && len(n.Inputs) == 1 && linearIn(n, x) && w.staysPartial(x):
		in[0] = partial
		w.add(n, n.Attr, in, partial)
	case l.split():
		if axis, attr, ok := w.moved(n, int(l)); ok {
			in[0] = l
			w.add(n, attr, in, layout(axis))
			return
		}
		w.wholly(n)
	default:
		w.wholly(n)
	}
}

// moved is the axis of the result that an axis of the first operand becomes, and what the
// operation has to know then. It is false where the result of parts is no part of the result.
func (w *writer) moved(n *graph.Node, axis int) (result int, attr any, ok bool) {
	from, to := n.Inputs[0].Shape(), n.Shapes[0]
	switch n.Op {
	case graph.Identity:
		return axis, n.Attr, true
	case graph.Reshape:
		result, ok = w.reshaped(from.Dims, to.Dims, axis)
		return result, n.Attr, ok
	case graph.Bitcast: // the last axis comes, or goes
		return axis, n.Attr, axis < to.Rank()
	case graph.Transpose:
		return slices.Index(n.Attr.(graph.Axes), axis), n.Attr, true
	case graph.BroadcastInDim:
		result = n.Attr.(graph.Axes)[axis]
		return result, n.Attr, from.Dims[axis] == to.Dims[result]
	case graph.Reverse:
		return axis, n.Attr, !slices.Contains(n.Attr.(graph.Axes), axis)
	case graph.Slice:
		a := *n.Attr.(*graph.Slicing)
		if a.Starts[axis] != 0 || a.Strides[axis] != 1 || a.Limits[axis] != from.Dims[axis] {
			return 0, nil, false
		}
		a.Limits = slices.Clone(a.Limits)
		a.Limits[axis] /= w.ranks
		return axis, &a, true
	case graph.Pad:
		a := n.Attr.(*graph.Padding)
		return axis, a, a.Low[axis] == 0 && a.High[axis] == 0 && a.Interior[axis] == 0
	case graph.DynamicSlice:
		return axis, n.Attr, from.Dims[axis] == to.Dims[axis]
	case graph.ArgMax, graph.ArgMin:
		over := int(n.Attr.(graph.Axis))
		if axis > over {
			return axis - 1, n.Attr, true
		}
		return axis, n.Attr, axis != over
	}
	return 0, nil, false
}

// reshaped is the axis along which a reshaped value is split: the one that begins where the
// axis did, if it is cut into as many parts. So the first of several axes that become one
// may be split, and an axis that becomes several is split along the first.
func (w *writer) reshaped(from, to []int, axis int) (int, bool) {
	for i, d := range to {
		if product(to[:i]) == product(from[:axis]) && d%w.ranks == 0 {
			return i, true
		}
	}
	return 0, false
}

// concatenate puts parts together where operands are split along another axis.
func (w *writer) concatenate(n *graph.Node) {
	to := whole
	for _, v := range n.Inputs {
		if l := w.layout(v); l.split() && int(l) != int(n.Attr.(graph.Axis)) {
			to = l
			break
		}
	}
	w.add(n, n.Attr, slices.Repeat([]layout{to}, len(n.Inputs)), to)
}

// update writes a DynamicUpdateSlice, of parts where the window is as long as the whole.
func (w *writer) update(n *graph.Node) {
	in := slices.Repeat([]layout{whole}, len(n.Inputs))
	x, window := n.Inputs[0].Shape(), n.Inputs[1].Shape()
	for _, v := range n.Inputs[:2] {
		if l := w.layout(v); l.split() && x.Dims[l] == window.Dims[l] {
			in[0], in[1] = l, l
			break
		}
	}
	w.add(n, n.Attr, in, in[0])
}
