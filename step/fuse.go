package step

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// mostFused is how many operations become one task at most.
const mostFused = 64

// tasks groups the operations of a graph: element-wise ones join the one that reads
// them, if they have no other readers and are of the same dimensions. What a task reads
// is there when its last operation is due. Operations that have no memory are none.
func tasks(g *graph.Graph) []*Task {
	readers := map[graph.Value][]*graph.Node{}
	for _, n := range g.Nodes() {
		for _, v := range n.Inputs {
			readers[v] = append(readers[v], n)
		}
	}
	group := map[*graph.Node]*Task{}
	var all []*Task
	for i := len(g.Nodes()) - 1; i >= 0; i-- {
		n := g.Nodes()[i]
		if n.Op == graph.Parameter || n.Op == graph.Constant || n.Op.Class() == graph.View && n.Op != graph.Identity {
			continue
		}
		if fusible(n) {
			v := n.Value(0)
			into, own := joined(n, readers[v], group), slices.Contains(g.Outputs(), v)
			if repeated(n) {
				// Nothing is gained by keeping it for several readers.
				for _, t := range into {
					t.Nodes = append(t.Nodes, n)
				}
				own = own || len(into) == 0 || slices.ContainsFunc(readers[v], func(r *graph.Node) bool { return group[r] == nil || !slices.Contains(into, group[r]) })
			} else if !own && len(into) == 1 && !slices.ContainsFunc(readers[v], func(r *graph.Node) bool { return group[r] != into[0] }) {
				into[0].Nodes = append(into[0].Nodes, n)
				group[n] = into[0]
			} else {
				own = true
			}
			if !own || group[n] != nil {
				continue
			}
		}
		t := &Task{Nodes: []*graph.Node{n}}
		group[n] = t
		all = append(all, t)
	}
	slices.Reverse(all)
	for _, t := range all {
		slices.Reverse(t.Nodes)
		t.finish()
	}
	return all
}

// fusible reports whether an operation can be one of several in a task.
func fusible(n *graph.Node) bool {
	return n.Op.Class() == graph.Elementwise || repeated(n)
}

// repeated reports whether an operation is as cheap in each task that reads it as its
// result would be to read. Its operand is memory.
func repeated(n *graph.Node) bool { return n.Op == graph.BroadcastInDim || n.Op == graph.Iota }

// joined are the tasks of readers that an operation can be part of.
func joined(n *graph.Node, readers []*graph.Node, group map[*graph.Node]*Task) []*Task {
	var into []*Task
	for _, r := range readers {
		t := group[r]
		if t == nil || slices.Contains(into, t) || len(t.Nodes) >= mostFused || r.Op.Class() != graph.Elementwise {
			continue
		}
		if slices.Equal(n.Shapes[0].Dims, t.Nodes[0].Shapes[0].Dims) {
			into = append(into, t)
		}
	}
	return into
}

// finish lists what the task reads and writes.
func (t *Task) finish() {
	last := t.Nodes[len(t.Nodes)-1]
	for i := range last.Shapes {
		t.Outputs = append(t.Outputs, last.Value(i))
	}
	if len(t.Nodes) == 1 {
		t.Inputs = slices.Clone(last.Inputs)
		return
	}
	inside := map[*graph.Node]bool{}
	for _, n := range t.Nodes {
		for _, v := range n.Inputs {
			if (n.Op == graph.BroadcastInDim || !inside[v.Node()]) && !slices.Contains(t.Inputs, v) {
				t.Inputs = append(t.Inputs, v)
			}
		}
		inside[n] = true
	}
}
