package train

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step/graph"
)

// Ranks that update the same weights by the same gradients do the same work, and keep the
// same moments. Where an update goes element by element, each rank can do a share instead:
// it gets its share of the mean gradient (reduce-scatter), keeps its share of the moments,
// and all get the new weights of all (all-gather), which takes no more of the link. This is
// what ZeRO calls stages 1 and 2: Rajbhandari et al., ZeRO: Memory Optimizations Toward
// Training Trillion Parameter Models, SC 2020.

// Sharing is what ranks share instead of having, and doing, all of it each.
type Sharing uint8

const (
	// ShareNothing: each rank has the whole state, and makes the whole update.
	ShareNothing Sharing = iota
	// ShareUpdate: each rank keeps its share of what the optimizer does, as moments, and
	// makes its share of the new weights. Weights are whole on all. It is stages 1 and 2 of
	// ZeRO.
	ShareUpdate
	// ShareWeights: each rank keeps its share of the weights, too. They are gathered shortly
	// before they are read, once for the loss and once for the gradients, and kept no longer
	// than they are needed; gradients are added up over micro-batches as shares. It is stage
	// 3 of ZeRO, which takes half as much traffic again.
	ShareWeights
)

var sharings = [...]string{ShareNothing: "nothing", ShareUpdate: "update", ShareWeights: "weights"}

// String returns the name: "update".
func (s Sharing) String() string {
	if int(s) >= len(sharings) {
		return fmt.Sprintf("sharing(%d)", uint8(s))
	}
	return sharings[s]
}

// share is values of one shape that are computed of each other element by element: a
// gradient, a weight, and what an optimizer keeps of it.
type share struct {
	elements int // of each value
	each     int // of a rank, the last of which may have fewer that count
}

// of is the shape of a rank's share.
func (s *share) of(whole graph.Shape) graph.Shape { return graph.MakeShape(whole.Type, s.each) }

// leastShare is how many elements a rank's share has at least: less is not worth
// an operation.
const leastShare = 16

// findShares finds what ranks can share: of each group of values that updates combine
// element by element, all, or none if something else is done with any of them.
func (w *rewriter) findShares() map[graph.Value]*share {
	group := map[graph.Value]*graph.Value{} // the first value of each one's group
	var root func(v graph.Value) graph.Value
	root = func(v graph.Value) graph.Value {
		if up := group[v]; up != nil {
			return root(*up)
		}
		return v
	}
	bad := map[graph.Value]bool{}  // by root
	good := map[graph.Value]bool{} // a gradient is in it
	var values []graph.Value
	noted := map[graph.Value]bool{}
	note := func(v graph.Value) {
		if !noted[v] {
			noted[v] = true
			values = append(values, v)
			good[v] = w.isGradient(v)
			// What is made of the batch otherwise is a rank's own.
			bad[v] = w.inside[v.Node()] && !w.isGradient(v) && v.Node().Op != graph.Parameter && v.Node().Op != graph.Constant ||
				slices.Contains(w.step.Batch, v)
		}
	}
	unite := func(a, b graph.Value) {
		note(a)
		note(b)
		if x, y := root(a), root(b); x != y {
			group[y] = &x
			bad[x], good[x] = bad[x] || bad[y], good[x] || good[y]
		}
	}
	for _, n := range w.step.Graph.Nodes() {
		if w.inside[n] || n.Op == graph.Parameter || n.Op == graph.Constant {
			continue
		}
		var list []graph.Value
		for i := range n.Shapes {
			list = append(list, n.Value(i))
		}
		list = slices.DeleteFunc(append(list, n.Inputs...), func(v graph.Value) bool { return v.Shape().Size() < 2 })
		for _, v := range list {
			note(v)
			unite(list[0], v)
		}
		if len(list) > 0 && !elementByElement(n, list) && !overAll(n) {
			bad[root(list[0])] = true
		}
	}
	for _, st := range w.step.State { // one may be what another was
		if st.Next != (graph.Value{}) && st.Next.Shape().Size() > 1 {
			unite(st.Param, st.Next)
			if st.Each {
				bad[root(st.Param)] = true
			}
		}
	}
	shares, of := map[graph.Value]*share{}, map[graph.Value]*share{}
	for _, v := range values {
		r := root(v)
		if bad[r] || !good[r] || v.Shape().Size() < w.ranks*leastShare {
			continue
		}
		if of[r] == nil {
			n := v.Shape().Size()
			of[r] = &share{n, (n + w.ranks - 1) / w.ranks}
		}
		shares[v] = of[r]
	}
	return shares
}

// elementByElement reports whether an operation makes each element of those at the same
// place. list is its values of more than one element.
func elementByElement(n *graph.Node, list []graph.Value) bool {
	same := !slices.ContainsFunc(list, func(v graph.Value) bool { return !slices.Equal(v.Shape().Dims, list[0].Shape().Dims) })
	switch n.Op {
	case graph.Identity:
		return same
	case graph.BroadcastInDim:
		return len(list) == 1 // of one element
	}
	return same && n.Op.Class() == graph.Elementwise
}

// overAll reports whether an operation makes one number of all elements, by parts.
func overAll(n *graph.Node) bool {
	t := n.Shapes[0].Type
	can := n.Op == graph.ReduceSum && parallel.Reduces(t, parallel.Sum) || n.Op == graph.ReduceAnd && t == dtype.Bool
	return can && n.Shapes[0].Size() == 1 && n.Inputs[0].Shape().Size() > 1
}

// sharedWhole reports whether an operation makes one number of a value that ranks share.
func (w *rewriter) sharedWhole(n *graph.Node) bool { return overAll(n) && w.shares[n.Inputs[0]] != nil }

// over writes an operation that makes one number of all elements: each rank does it of its
// share, without what fills that up, and all put together what they have.
func (w *rewriter) over(n *graph.Node) graph.Value {
	x, s := w.ownOf(n.Inputs[0]), w.shares[n.Inputs[0]]
	if there := min(max(s.elements-w.rank*s.each, 0), s.each); there < s.each {
		all := x
		x = w.do(func() (graph.Value, error) { return w.Slice(all, []int{0}, []int{there}, nil) })
	}
	x = w.reduce(n.Op, x, 0)
	if n.Op == graph.ReduceAnd { // where no rank has a bit that is not set
		x = w.convert(w.unary(graph.Not, x), dtype.I32)
	}
	if w.err == nil {
		x = w.one(w.AllReduce(graph.AllReduceOptions{}, x))
	}
	if n.Op == graph.ReduceAnd {
		x = w.binary(graph.Equal, x, w.number(0, dtype.I32))
	}
	return w.reshape(x, n.Shapes[0].Dims...)
}

// part writes a rank's share of an operation's result.
func (w *rewriter) part(n *graph.Node) graph.Value {
	s := w.shares[n.Value(0)]
	if n.Op == graph.BroadcastInDim {
		x := w.reshape(w.reduced(n.Inputs[0]))
		return w.do(func() (graph.Value, error) { return w.BroadcastInDim(x, []int{s.each}, nil) })
	}
	in := make([]graph.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		if v.Shape().Size() < 2 {
			in[i] = w.reshape(w.reduced(v))
		} else {
			in[i] = w.ownOf(v)
		}
	}
	if w.err != nil {
		return graph.Value{}
	}
	return w.Append(n.Op, n.Attr, []graph.Shape{s.of(n.Shapes[0])}, in...).Value(0)
}

// ownOf is the rank's share of a value that is there as a whole, or is shared.
func (w *rewriter) ownOf(v graph.Value) graph.Value {
	if w.own[v] != (graph.Value{}) {
		return w.own[v]
	}
	s := w.shares[v]
	flat := w.reshape(w.now[v], s.elements)
	if more := s.each*w.ranks - s.elements; more > 0 {
		zero := w.number(0, v.Shape().Type)
		whole := flat
		flat = w.do(func() (graph.Value, error) {
			return w.Pad(whole, zero, graph.Padding{Low: []int{0}, High: []int{more}, Interior: []int{0}})
		})
	}
	if w.isGradient(v) {
		if w.err == nil {
			w.own[v] = w.one(w.ReduceScatter(w.means, w.ranks, flat))
		}
		return w.own[v]
	}
	own := w.do(func() (graph.Value, error) {
		return w.Slice(flat, []int{w.rank * s.each}, []int{(w.rank + 1) * s.each}, nil)
	})
	if v.Node().Op == graph.Constant && w.err == nil {
		// Parts of constants may be the same on one rank alone. What is made of them must not
		// become one there, with what ranks do together.
		own = w.one(w.OptimizationBarrier(own))
	}
	w.own[v] = own
	return own
}

// gather is a value of which each rank has a share, and that takes the place of into.
func (w *rewriter) gather(own, into graph.Value) graph.Value {
	if w.err != nil {
		return graph.Value{}
	}
	return w.do(func() (graph.Value, error) { return w.AllGatherInto(w.ranks, into, own) })
}

// cut is a rank's share of the data of a parameter.
func (s *share) cut(data []byte, rank int) []byte {
	size := len(data) / s.elements
	out := make([]byte, s.each*size)
	if from := rank * s.each * size; from < len(data) {
		copy(out, data[from:])
	}
	return out
}
