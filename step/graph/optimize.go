package graph

import (
	"fmt"
	"strings"
)

// Optimize copies a graph without what nothing needs. What is computed twice is computed
// once, and products read their operands as they were before they were transposed.
// Parameters stay, all of them. Outputs that are no result of an operation with memory of
// its own (parameters, views, one value twice) become copies.
func Optimize(g *Graph) *Graph {
	needed := reached(g)
	out := New(g.name)
	now := map[Value]Value{}
	seen := map[string]*Node{}
	for _, n := range g.nodes {
		if !needed[n] {
			continue
		}
		in := make([]Value, len(n.Inputs))
		for i, v := range n.Inputs {
			in[i] = now[v]
		}
		if v, ok := simpler(n, in); ok {
			now[n.Value(0)] = v
			continue
		}
		attr := n.Attr
		if from, axes, ok := absorbed(n, in); ok {
			in, attr = from, axes
		}
		key := ""
		if n.Op != Parameter && n.Op != OptimizationBarrier && n.Op != SchedulingBarrier {
			key = identity(n.Op, attr, n.Shapes, in)
		}
		m := seen[key]
		if key == "" || m == nil {
			m = out.Append(n.Op, attr, n.Shapes, in...)
			if n.Op == Parameter {
				out.params = append(out.params, m.Value(0))
			}
			if key != "" {
				seen[key] = m
			}
		}
		for i := range n.Shapes {
			now[n.Value(i)] = m.Value(i)
		}
	}
	taken := map[Value]bool{}
	for _, v := range g.outputs {
		w := now[v]
		if class := w.node.Op.Class(); class == Source && w.node.Op != Iota || class == View || taken[w] {
			w = out.add(Identity, nil, w.Shape(), w)
		}
		taken[w] = true
		out.outputs = append(out.outputs, w)
	}
	return out
}

// reached are the operations that outputs come of, and all parameters.
func reached(g *Graph) map[*Node]bool {
	needed := map[*Node]bool{}
	for _, v := range g.outputs {
		needed[v.node] = true
	}
	for i := len(g.nodes) - 1; i >= 0; i-- {
		n := g.nodes[i]
		if n.Op == Parameter {
			needed[n] = true
		}
		if needed[n] {
			for _, v := range n.Inputs {
				needed[v.node] = true
			}
		}
	}
	return needed
}

// simpler returns the value that an operation has no need to compute.
func simpler(n *Node, in []Value) (Value, bool) {
	if len(in) == 0 {
		return Value{}, false
	}
	x := in[0]
	switch n.Op {
	case Identity:
		return x, true
	case Reshape, Transpose, BroadcastInDim, Slice:
		if n.Op == Transpose {
			for i, axis := range n.Attr.(Axes) {
				if i != axis {
					return Value{}, false
				}
			}
		}
		return x, n.Shapes[0].Equal(x.Shape())
	case Bitcast:
		return x, n.Shapes[0].Equal(x.Shape())
	case Reverse:
		return x, len(n.Attr.(Axes)) == 0
	case Concatenate:
		return x, len(in) == 1
	case ReduceSum, ReduceProduct, ReduceMax, ReduceMin, ReduceAnd, ReduceOr, ReduceXor:
		return x, len(n.Attr.(Axes)) == 0
	}
	return Value{}, false
}

// identity says what an operation computes: those that say the same compute the same.
func identity(op Op, attr any, shapes []Shape, in []Value) string {
	var b strings.Builder
	b.WriteString(op.String())
	for _, v := range in {
		b.WriteString(v.String())
	}
	if data, ok := attr.(Data); ok {
		b.WriteByte(' ')
		b.Write(data)
	} else {
		b.WriteString(attrString(attr))
	}
	fmt.Fprint(&b, " ", shapes)
	return b.String()
}
