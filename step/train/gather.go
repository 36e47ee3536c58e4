package train

import "github.com/pinion-gpu/pinion/step/graph"

// gathering writes what reads weights of which each rank has a share. They are gathered
// where they are read first by what the loss is made of, and again by what only gradients
// are made of, so that nothing has to keep them from one to the other. It is stage 3 of
// ZeRO, and what PyTorch's FSDP does: Zhao et al., PyTorch FSDP: Experiences on Scaling
// Fully Sharded Data Parallel, VLDB 2023.
type gathering struct {
	*rewriter
	forward map[*graph.Node]bool // what the loss is made of
	alone   map[graph.Value]bool // weights, and what is made of nothing else, element by element or by moving it
	passes  [3]map[graph.Value]graph.Value
}

// Passes over the weights: see [graph.Graph.AllGatherLate].
const (
	forward  = 1
	backward = 2
)

func newGathering(w *rewriter) *gathering {
	g := &gathering{rewriter: w, forward: map[*graph.Node]bool{w.step.Loss.Node(): true}, alone: map[graph.Value]bool{}}
	for i := range g.passes {
		g.passes[i] = map[graph.Value]graph.Value{}
	}
	nodes := w.step.Graph.Nodes()
	for i := len(nodes) - 1; i >= 0; i-- {
		if g.forward[nodes[i]] {
			for _, v := range nodes[i].Inputs {
				g.forward[v.Node()] = true
			}
		}
	}
	for _, n := range nodes {
		if v := n.Value(0); w.inside[n] && len(n.Shapes) == 1 {
			g.alone[v] = n.Op == graph.Parameter && w.shares[v] != nil || g.madeOfWeights(n)
		}
	}
	return g
}

// madeOfWeights reports whether an operation that is cheap has a weight for its only operand.
func (g *gathering) madeOfWeights(n *graph.Node) bool {
	switch n.Op.Class() {
	case graph.Elementwise, graph.View, graph.Movement:
		return len(n.Inputs) == 1 && g.alone[n.Inputs[0]]
	}
	return false
}

// write writes an operation that gradients or the loss are made of. What is made of weights
// alone is written where it is read: in each pass anew.
func (g *gathering) write(n *graph.Node) {
	if v := n.Value(0); g.alone[v] && !g.isGradient(v) && v != g.step.Loss {
		return
	}
	pass := backward
	if g.forward[n] {
		pass = forward
	}
	g.copy(n, pass, g.now)
}

// copy copies an operation, with results in now.
func (g *gathering) copy(n *graph.Node, pass int, now map[graph.Value]graph.Value) {
	seen := map[graph.Value]graph.Value{}
	for _, v := range n.Inputs {
		seen[v] = g.read(v, pass)
	}
	if g.err != nil {
		return
	}
	g.Copy(n, seen)
	for i := range n.Shapes {
		now[n.Value(i)] = seen[n.Value(i)]
	}
}

// read is a value as a pass reads it.
func (g *gathering) read(v graph.Value, pass int) graph.Value {
	if !g.alone[v] {
		return g.now[v]
	}
	now := g.passes[pass]
	if now[v] == (graph.Value{}) && g.err == nil {
		switch n := v.Node(); {
		case n.Op == graph.Parameter:
			now[v] = g.whole(g.own[v], pass, v.Shape())
		case n.Op == graph.Convert && n.Inputs[0].Node().Op == graph.Parameter && v.Shape().Type.Size() <= n.Inputs[0].Shape().Type.Size():
			// The fewer bytes are gathered.
			now[v] = g.whole(g.convert(g.own[n.Inputs[0]], v.Shape().Type), pass, v.Shape())
		default:
			g.copy(n, pass, now)
		}
	}
	return now[v]
}

// whole gathers the shares of a value.
func (g *gathering) whole(own graph.Value, pass int, s graph.Shape) graph.Value {
	all := g.do(func() (graph.Value, error) { return g.AllGatherLate(g.ranks, pass, own) })
	if g.err == nil && all.Shape().Size() > s.Size() {
		filled := all
		all = g.do(func() (graph.Value, error) { return g.Slice(filled, []int{0}, []int{s.Size()}, nil) })
	}
	return g.reshape(all, s.Dims...)
}

// wantedWhole reports whether what the loss and the gradients are made of reads an
// operation's result as a whole, so that ranks cannot share it.
func (w *rewriter) wantedWhole(n *graph.Node) bool {
	return w.inside[n] && !(w.weights != nil && n.Op == graph.Parameter)
}
