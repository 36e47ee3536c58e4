package spmd

import "github.com/pinion-gpu/pinion/step/graph"

// attention writes an attention, or its gradients. Ranks split the heads, those of keys too,
// or the batch.
func (w *writer) attention(n *graph.Node) {
	o, s := graph.AttentionOf(n)
	heads := 1
	if o.HeadsBehind {
		heads = 2
	}
	first, axis, ok := w.firstSplit(n)
	sums := 1 // where heads are in the sums of scores
	of := func(v graph.Value) int {
		if v.Shape().Rank() == 3 {
			return sums
		}
		return heads
	}
	switch {
	case ok && axis == 0:
		w.headwise(n, func(graph.Value) int { return 0 })
	case ok && axis == of(n.Inputs[first]) && s.Heads%w.ranks == 0 && s.KeyHeads%w.ranks == 0:
		w.headwise(n, of)
	default:
		w.wholly(n)
	}
}

// headwise adds an operation of which all values are split along an axis each.
func (w *writer) headwise(n *graph.Node, axis func(graph.Value) int) {
	var in, results []layout
	for _, v := range n.Inputs {
		in = append(in, layout(axis(v)))
	}
	for i := range n.Shapes {
		results = append(results, layout(axis(n.Value(i))))
	}
	w.add(n, n.Attr, in, results...)
}

// firstSplit is the first operand that is split.
func (w *writer) firstSplit(n *graph.Node) (operand int, axis int, ok bool) {
	for i, v := range n.Inputs {
		if l := w.layout(v); l.split() {
			return i, int(l), true
		}
	}
	return 0, 0, false
}
