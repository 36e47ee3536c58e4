package spmd

import (
	"slices"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
)

// indexed reports whether indices name one element each along an axis, and nothing else, as
// those of a table's rows do. single are axes along which one element is taken, or put.
func indexed(start, single []int, axis int, at graph.Value) bool {
	return slices.Equal(start, []int{axis}) && slices.Contains(single, axis) && at.Shape().Type != dtype.U64
}

// takeRows writes a Gather of a table of which each rank has some rows. It takes those that
// it has, and zeros for others: summands of the result.
func (w *writer) takeRows(n *graph.Node, axis int) {
	a, x, s := n.Attr.(*graph.GatherAxes), n.Inputs[0], n.Shapes[0]
	rows := x.Shape().Dims[axis]
	at := w.wide(n.Inputs[1])
	at = w.binary(graph.Max, w.binary(graph.Min, at, w.number(rows-1)), w.number(0)) // as Gather moves them
	at = w.own(at, rows)
	own := w.out.Append(n.Op, a, n.Shapes, w.as(x, layout(axis)), at).Value(0)

	has := w.binary(graph.And, w.binary(graph.GreaterOrEqual, at, w.number(0)), w.binary(graph.Less, at, w.number(rows/w.ranks)))
	var batch []int // axes of the result that the indices have
	for i := range s.Rank() {
		if !slices.Contains(a.Offset, i) {
			batch = append(batch, i)
		}
	}
	if dims := has.Shape().Dims; a.IndexVector < len(dims) {
		has = w.reshape(has, slices.Delete(slices.Clone(dims), a.IndexVector, a.IndexVector+1))
	}
	has = w.keep(w.out.BroadcastInDim(has, s.Dims, batch))
	zero := w.keep(w.out.Fill(0, graph.MakeShape(s.Type)))
	w.forms[n.Value(0)] = forms{{partial, w.keep(w.out.Where(has, own, zero))}}
}

// putRows writes a scatter into a table of which each rank has some rows. Updates of others'
// rows lie outside of those, and are left out.
func (w *writer) putRows(n *graph.Node, axis int) {
	x, updates := n.Inputs[0], n.Inputs[2]
	at := w.own(w.wide(n.Inputs[1]), x.Shape().Dims[axis])
	shape := local(n.Shapes[0], layout(axis), w.ranks)
	m := w.out.Append(n.Op, n.Attr, []graph.Shape{shape}, w.as(x, layout(axis)), at, w.as(updates, whole))
	w.forms[n.Value(0)] = forms{{layout(axis), m.Value(0)}}
}

// wide is indices as int64, which hold those of all smaller types.
func (w *writer) wide(at graph.Value) graph.Value {
	return w.keep(w.out.Convert(w.as(at, whole), dtype.I64))
}

// own is indices of so many rows as those of the rank's: from 0 on, if it has them.
func (w *writer) own(at graph.Value, rows int) graph.Value {
	ranks := w.keep(w.out.Iota(graph.MakeShape(dtype.I64, w.ranks), 0))
	rank := w.reshape(w.part(ranks, 0), nil) // not a number, so that graphs of ranks are alike
	return w.binary(graph.Sub, at, w.binary(graph.Mul, rank, w.number(rows/w.ranks)))
}

func (w *writer) number(n int) graph.Value {
	return w.keep(w.out.Fill(float64(n), graph.MakeShape(dtype.I64)))
}

func (w *writer) binary(op graph.Op, x, y graph.Value) graph.Value {
	return w.keep(w.out.Binary(op, x, y))
}
