package spmd

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// take writes a Gather. It goes along axes of the operand that slices have as a whole, such
// as the width of a table, along the one that indices are for, such as a table's rows, and
// along those of the indices.
func (w *writer) take(n *graph.Node) {
	a := *n.Attr.(*graph.GatherAxes)
	x, at := n.Inputs[0], n.Inputs[1]
	if l := w.layout(x); l.split() && indexed(a.StartIndex, a.Collapsed, int(l), at) && summable(x.Shape().Type) {
		w.takeRows(n, int(l))
		return
	}
	if l := w.layout(x); l.split() && a.Sizes[l] == x.Shape().Dims[l] {
		to := a.Offset[int(l)-below(a.Collapsed, int(l))]
		a.Sizes = slices.Clone(a.Sizes)
		a.Sizes[l] /= w.ranks
		w.add(n, &a, []layout{l, whole}, layout(to))
		return
	}
	if l := w.layout(at); l.split() && int(l) != a.IndexVector {
		to := outside(a.Offset, int(l)-below([]int{a.IndexVector}, int(l)))
		w.add(n, n.Attr, []layout{whole, l}, layout(to))
		return
	}
	w.wholly(n)
}

// put writes a scatter, along axes of which updates have the whole, or along the one that
// indices are for.
func (w *writer) put(n *graph.Node) {
	a := n.Attr.(*graph.ScatterAxes)
	x, updates := n.Inputs[0], n.Inputs[2]
	for window, in := range a.Window {
		axis := outside(a.Inserted, window)
		split := w.layout(x) == layout(axis) || w.layout(updates) == layout(in)
		if split && x.Shape().Dims[axis] == updates.Shape().Dims[in] {
			w.add(n, n.Attr, []layout{layout(axis), whole, layout(in)}, layout(axis))
			return
		}
	}
	for _, l := range []layout{w.layout(x), w.hint(n.Value(0))} {
		if l.split() && indexed(a.StartIndex, a.Inserted, int(l), n.Inputs[1]) {
			w.putRows(n, int(l))
			return
		}
	}
	w.wholly(n)
}

// below is how many of some axes come before one.
func below(axes []int, axis int) (n int) {
	for _, a := range axes {
		if a < axis {
			n++
		}
	}
	return n
}

// outside is the i-th axis that is not among some.
func outside(axes []int, i int) int {
	for axis := 0; ; axis++ {
		if slices.Contains(axes, axis) {
			continue
		}
		if i == 0 {
			return axis
		}
		i--
	}
}
