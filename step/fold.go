package step

import (
	"context"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// mostFolded is the size of the largest value, in bytes, that is computed when a graph is
// compiled.
const mostFolded = 4096

// fold replaces what is computed of constants alone, and is small, by constants: the
// executor computes them once.
func fold(g *graph.Graph, exec Executor) (*graph.Graph, error) {
	part := constantPart(g)
	if len(part) == 0 {
		return g, nil
	}
	// The part as a graph of its own.
	sub := graph.New(g.Name() + ": constants")
	now := map[graph.Value]graph.Value{}
	for _, n := range g.Nodes() {
		if !part[n] && n.Op != graph.Constant {
			continue
		}
		sub.Copy(n, now)
	}
	wanted := wantedOutside(g, part)
	if len(wanted) == 0 {
		return g, nil
	}
	if err := sub.SetOutputs(graph.Translated(wanted, now)...); err != nil {
		return nil, err
	}
	values, err := constantsOf(sub, exec)
	if err != nil {
		return nil, err
	}
	out := graph.New(g.Name())
	clear(now)
	for _, n := range g.Nodes() {
		if part[n] {
			for i := range n.Shapes {
				if k := slices.Index(wanted, n.Value(i)); k >= 0 {
					now[n.Value(i)] = out.Append(graph.Constant, values[k], n.Shapes[i:i+1]).Value(0)
				}
			}
			continue
		}
		out.Copy(n, now)
	}
	return out, out.SetOutputs(graph.Translated(g.Outputs(), now)...)
}

// constantPart are the operations that are computed of constants, and small.
func constantPart(g *graph.Graph) map[*graph.Node]bool {
	part := map[*graph.Node]bool{}
	for _, n := range g.Nodes() {
		if n.Op == graph.Parameter || n.Op == graph.Constant || n.Op == graph.OptimizationBarrier || n.Op == graph.SchedulingBarrier || n.Op.Class() == graph.Collective {
			continue
		}
		small := !slices.ContainsFunc(n.Shapes, func(s graph.Shape) bool { return s.Bytes() > mostFolded })
		constant := !slices.ContainsFunc(n.Inputs, func(v graph.Value) bool { return v.Node().Op != graph.Constant && !part[v.Node()] })
		if small && constant {
			part[n] = true
		}
	}
	return part
}

// wantedOutside lists values of the part that others read. Those that are as cheap to
// compute again as to read become others' own.
func wantedOutside(g *graph.Graph, part map[*graph.Node]bool) []graph.Value {
	read := map[graph.Value]bool{}
	for _, v := range g.Outputs() {
		read[v] = true
	}
	var wanted []graph.Value
	for i := len(g.Nodes()) - 1; i >= 0; i-- {
		n := g.Nodes()[i]
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
	return slices.DeleteFunc(wanted, func(v graph.Value) bool { return !part[v.Node()] })
}

// constantsOf runs a graph without parameters.
func constantsOf(g *graph.Graph, exec Executor) (values []graph.Data, err error) {
	x, err := compileFolded(graph.Optimize(g), exec, Options{}) // views become copies
	if err != nil {
		return nil, err
	}
	defer func() { err = keepFirst(err, x.Close()) }()
	results, err := x.Run(context.Background(), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("step: constants: %w", err)
	}
	for _, t := range results {
		data := make(graph.Data, t.shape.Bytes())
		err = keepFirst(err, t.Read(data), t.Free())
		values = append(values, data)
	}
	return values, err
}
