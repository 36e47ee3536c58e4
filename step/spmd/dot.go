package spmd

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// way is a way to split a product: how operands are read, and how the result is.
type way struct {
	in   [2]layout
	out  layout
	cost int64 // bytes of what has to be gathered for it
}

// dot writes a product. A batch axis, or one that is left, stays split; over a contracted
// axis that is split, products of parts are summands. Where operands are split along axes
// that do not go together, the smaller one is gathered; so is a gradient that is split otherwise
// than its weight.
func (w *writer) dot(n *graph.Node) {
	best := way{in: [2]layout{whole, whole}, out: whole, cost: -1}
	for side, v := range n.Inputs {
		l := w.layout(v)
		if !l.split() {
			continue
		}
		o, ok := split(n, side, int(l))
		if !ok {
			continue
		}
		o.cost = w.gathered(n.Inputs[1-side], o.in[1-side])
		if hint := w.hint(n.Value(0)); hint.split() && o.out.split() && o.out != hint {
			o.cost += n.Shapes[0].Bytes()
		}
		if best.cost < 0 || o.cost < best.cost {
			best = o
		}
	}
	w.add(n, n.Attr, best.in[:], best.out)
}

// gathered is how many bytes have to be gathered to read a value in a layout.
func (w *writer) gathered(v graph.Value, to layout) int64 {
	f := w.forms[v]
	_, there := f.as(to)
	if _, all := f.as(whole); there || all || !f.layout().split() {
		return 0
	}
	return v.Shape().Bytes()
}

// split is the way to split a product of which one side's operand is split along an axis.
func split(n *graph.Node, side, axis int) (o way, ok bool) {
	a := n.Attr.(*graph.DotAxes)
	o.in[side] = layout(axis)
	if i := slices.Index(a.Batch[side], axis); i >= 0 {
		o.in[1-side], o.out = layout(a.Batch[1-side][i]), layout(i)
		return o, true
	}
	if i := slices.Index(a.Contracted[side], axis); i >= 0 {
		o.in[1-side], o.out = layout(a.Contracted[1-side][i]), partial
		return o, summable(n.Shapes[0].Type)
	}
	o.in[1-side] = whole
	at := len(a.Batch[0])
	for i, v := range n.Inputs[:side+1] {
		for other := range v.Shape().Rank() {
			if i == side && other == axis {
				o.out = layout(at)
				return o, true
			}
			if !slices.Contains(a.Batch[i], other) && !slices.Contains(a.Contracted[i], other) {
				at++
			}
		}
	}
	return o, false
}
