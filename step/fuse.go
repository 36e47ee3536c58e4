package step

import "slices"

// mostFused is how many operations become one task at most.
const mostFused = 64

// tasks groups the operations of a graph: element-wise ones join the one that reads
// them, if they have no other readers and are of the same dimensions. What a task reads
// is there when its last operation is due. Operations that have no memory are none.
func tasks(g *Graph) []*Task {
	readers := map[Value][]*Node{}
	for _, n := range g.nodes {
		for _, v := range n.Inputs {
			readers[v] = append(readers[v], n)
		}
	}
	group := map[*Node]*Task{}
	var all []*Task
	for i := len(g.nodes) - 1; i >= 0; i-- {
		n := g.nodes[i]
		if n.Op == Parameter || n.Op == Constant || n.Op.Class() == View && n.Op != Identity {
			continue
		}
		if fusible(n) {
			v := n.Value(0)
			into, own := joined(n, readers[v], group), slices.Contains(g.outputs, v)
			if repeated(n) {
				// Nothing is gained by keeping it for several readers.
				for _, t := range into {
					t.Nodes = append(t.Nodes, n)
				}
				own = own || len(into) == 0 || slices.ContainsFunc(readers[v], func(r *Node) bool { return group[r] == nil || !slices.Contains(into, group[r]) })
			} else if !own && len(into) == 1 && !slices.ContainsFunc(readers[v], func(r *Node) bool { return group[r] != into[0] }) {
				into[0].Nodes = append(into[0].Nodes, n)
				group[n] = into[0]
			} else {
				own = true
			}
			if !own || group[n] != nil {
				continue
			}
		}
		t := &Task{Nodes: []*Node{n}}
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
func fusible(n *Node) bool {
	return n.Op.Class() == Elementwise || repeated(n)
}

// repeated reports whether an operation is as cheap in each task that reads it as its
// result would be to read. Its operand is memory.
func repeated(n *Node) bool { return n.Op == BroadcastInDim || n.Op == Iota }

// joined are the tasks of readers that an operation can be part of.
func joined(n *Node, readers []*Node, group map[*Node]*Task) []*Task {
	var into []*Task
	for _, r := range readers {
		t := group[r]
		if t == nil || slices.Contains(into, t) || len(t.Nodes) >= mostFused || r.Op.Class() != Elementwise {
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
	inside := map[*Node]bool{}
	for _, n := range t.Nodes {
		for _, v := range n.Inputs {
			if (n.Op == BroadcastInDim || !inside[v.node]) && !slices.Contains(t.Inputs, v) {
				t.Inputs = append(t.Inputs, v)
			}
		}
		inside[n] = true
	}
}
