package step

import (
	"context"
	"fmt"
	"slices"
)

// mostFolded is the size of the largest value, in bytes, that is computed when a graph is
// compiled.
const mostFolded = 4096

// fold replaces what is computed of constants alone, and is small, by constants: the
// executor computes them once.
func fold(g *Graph, exec Executor) (*Graph, error) {
	part := constantPart(g)
	if len(part) == 0 {
		return g, nil
	}
	// The part as a graph of its own.
	sub := NewGraph(g.name + ": constants")
	now := map[Value]Value{}
	for _, n := range g.nodes {
		if !part[n] && n.Op != Constant {
			continue
		}
		m := sub.Append(n.Op, n.Attr, n.Shapes, translated(n.Inputs, now)...)
		for i := range n.Shapes {
			now[n.Value(i)] = m.Value(i)
		}
	}
	wanted := wantedOutside(g, part)
	if len(wanted) == 0 {
		return g, nil
	}
	sub.outputs = translated(wanted, now)
	values, err := constantsOf(sub, exec)
	if err != nil {
		return nil, err
	}
	out := NewGraph(g.name)
	clear(now)
	for _, n := range g.nodes {
		if part[n] {
			for i := range n.Shapes {
				if k := slices.Index(wanted, n.Value(i)); k >= 0 {
					now[n.Value(i)] = out.add(Constant, values[k], n.Shapes[i])
				}
			}
			continue
		}
		m := out.Append(n.Op, n.Attr, n.Shapes, translated(n.Inputs, now)...)
		if n.Op == Parameter {
			out.params = append(out.params, m.Value(0))
		}
		for i := range n.Shapes {
			now[n.Value(i)] = m.Value(i)
		}
	}
	out.outputs = translated(g.outputs, now)
	return out, nil
}

func translated(values []Value, now map[Value]Value) []Value {
	out := make([]Value, len(values))
	for i, v := range values {
		out[i] = now[v]
	}
	return out
}

// constantPart are the operations that are computed of constants, and small.
func constantPart(g *Graph) map[*Node]bool {
	part := map[*Node]bool{}
	for _, n := range g.nodes {
		if n.Op == Parameter || n.Op == Constant || n.Op == OptimizationBarrier || n.Op == SchedulingBarrier {
			continue
		}
		small := !slices.ContainsFunc(n.Shapes, func(s Shape) bool { return s.Bytes() > mostFolded })
		constant := !slices.ContainsFunc(n.Inputs, func(v Value) bool { return v.node.Op != Constant && !part[v.node] })
		if small && constant {
			part[n] = true
		}
	}
	return part
}

// wantedOutside lists values of the part that others read. Those that are as cheap to
// compute again as to read become others' own.
func wantedOutside(g *Graph, part map[*Node]bool) []Value {
	read := map[Value]bool{}
	for _, v := range g.outputs {
		read[v] = true
	}
	var wanted []Value
	for i := len(g.nodes) - 1; i >= 0; i-- {
		n := g.nodes[i]
		if part[n] && repeated(n) && read[n.Value(0)] {
			delete(part, n)
		}
		for k := range n.Shapes {
			if v := n.Value(k); part[n] && read[v] {
				wanted = append(wanted, v)
			}
		}
		if !part[n] {
			for _, v := range n.Inputs {
				read[v] = true
			}
		}
	}
	return slices.DeleteFunc(wanted, func(v Value) bool { return !part[v.node] })
}

// constantsOf runs a graph without parameters.
func constantsOf(g *Graph, exec Executor) (values []Data, err error) {
	x, err := compileFolded(optimize(g), exec, Options{}) // views become copies
	if err != nil {
		return nil, err
	}
	defer func() { err = keepFirst(err, x.Close()) }()
	results, err := x.Run(context.Background(), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("step: constants: %w", err)
	}
	for _, t := range results {
		data := make(Data, t.shape.Bytes())
		err = keepFirst(err, t.Read(data), t.Free())
		values = append(values, data)
	}
	return values, err
}
