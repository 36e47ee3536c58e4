package spmd

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// writer writes a graph anew as that of one rank, operation by operation.
type writer struct {
	*partitioner
	out         *graph.Graph
	forms       map[graph.Value]forms       // of values of the step
	isFree      map[graph.Value]bool        // see free
	collectives map[*graph.Node]graph.Value // what operations of ranks are for
	err         error
}

func (w *writer) layout(v graph.Value) layout { return w.forms[v].layout() }

// write writes an operation. Each kind of operation decides by the layouts of its operands
// how it reads them, and what layouts its results have.
func (w *writer) write(n *graph.Node) {
	switch n.Op {
	case graph.Parameter:
		w.parameter(n)
	case graph.OptimizationBarrier, graph.SchedulingBarrier:
		w.barrier(n)
	case graph.Concatenate:
		w.concatenate(n)
	case graph.ReduceSum, graph.ReduceProduct, graph.ReduceMax, graph.ReduceMin, graph.ReduceAnd, graph.ReduceOr, graph.ReduceXor:
		w.reduce(n)
	case graph.DotGeneral:
		w.dot(n)
	case graph.Attention, graph.AttentionBackward:
		w.attention(n)
	case graph.Gather:
		w.take(n)
	case graph.ScatterSum, graph.ScatterMax, graph.ScatterMin:
		w.put(n)
	case graph.DynamicUpdateSlice:
		w.update(n)
	default:
		switch n.Op.Class() {
		case graph.Elementwise:
			w.elementwise(n)
		case graph.View, graph.Movement, graph.Reduction:
			w.move(n)
		default:
			w.wholly(n)
		}
	}
}

// add adds an operation that reads its operands in some layouts, with results in others.
func (w *writer) add(n *graph.Node, attr any, in []layout, results ...layout) {
	operands := make([]graph.Value, len(in))
	for i, v := range n.Inputs {
		operands[i] = w.as(v, in[i])
	}
	shapes := make([]graph.Shape, len(n.Shapes))
	for i, s := range n.Shapes {
		shapes[i] = local(s, results[i], w.ranks)
	}
	m := w.out.Append(n.Op, attr, shapes, operands...)
	for i := range n.Shapes {
		w.forms[n.Value(i)] = forms{{results[i], m.Value(i)}}
	}
}

// wholly adds an operation as it was: each rank does all of it.
func (w *writer) wholly(n *graph.Node) {
	w.add(n, n.Attr, slices.Repeat([]layout{whole}, len(n.Inputs)), slices.Repeat([]layout{whole}, len(n.Shapes))...)
}

func (w *writer) parameter(n *graph.Node) {
	v, l := n.Value(0), whole
	if own, ok := w.params[v]; ok {
		l = own
	}
	x := w.keep(w.out.Parameter(nameOf(v), local(v.Shape(), l, w.ranks)))
	w.forms[v] = forms{{l, x}}
}

// barrier keeps values as they are. Partial ones are added up before: what was saved for
// later would be added up a second time.
func (w *writer) barrier(n *graph.Node) {
	in := make([]layout, len(n.Inputs))
	for i, v := range n.Inputs {
		if in[i] = w.layout(v); in[i] == partial {
			in[i] = whole
		}
	}
	w.add(n, n.Attr, in, in[:len(n.Shapes)]...)
}
