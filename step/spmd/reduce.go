package spmd

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// reduce writes a reduction. Over other axes than the split one, each rank reduces its part.
// Over the split one, sums of parts are summands; of other reductions, ranks gather what
// each has, and reduce that.
func (w *writer) reduce(n *graph.Node) {
	x, axes := n.Inputs[0], n.Attr.(graph.Axes)
	l := w.layout(x)
	switch {
	case l == partial && n.Op == graph.ReduceSum && w.staysPartial(x):
		w.add(n, n.Attr, []layout{partial}, partial)
	case !l.split():
		w.wholly(n)
	case !slices.Contains(axes, int(l)):
		to := l
		for _, axis := range axes {
			if axis < int(l) {
				to--
			}
		}
		w.add(n, n.Attr, []layout{l}, to)
	case n.Op == graph.ReduceSum && summable(x.Shape().Type):
		w.add(n, n.Attr, []layout{l}, partial)
	default:
		v, s := n.Value(0), n.Shapes[0]
		own := w.out.Append(n.Op, n.Attr, n.Shapes, w.as(x, l)).Value(0)
		all := w.all(v, w.reshape(own, append([]int{1}, s.Dims...)))
		w.forms[v] = forms{{whole, w.keep(w.out.Reduce(n.Op, all, 0))}}
	}
}
