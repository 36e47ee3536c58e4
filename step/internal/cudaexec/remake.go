package cudaexec

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/access"
)

// mostRemade is how many operations a task has at most that makes values again.
const mostRemade = 64

// remake is a task that makes values of others that are given. What it does is computed
// element by element alone, each operation rounded by itself, so that its results are the
// same bits in every company; sums depend on how a kernel goes over its elements.
func remake(values, given []graph.Value) (*step.Task, error) {
	s := access.Views{Given: map[graph.Value]bool{}}
	for _, v := range given {
		s.Given[v] = !slices.Contains(values, v)
	}
	t := &step.Task{Outputs: values}
	nodes, inputs := map[*graph.Node]bool{}, map[graph.Value]bool{}
	var add func(v graph.Value) error
	add = func(v graph.Value) error {
		n := v.Node()
		if nodes[n] {
			return nil
		}
		if n.Op == graph.Constant || s.Given[v] {
			inputs[v] = true
			return nil
		}
		if !access.Inlines(n) || n.Op == graph.Parameter || len(nodes) >= mostRemade {
			return fmt.Errorf("cudaexec: %w: %v made of %d values in memory", step.ErrNotSupported, v.Node().Op, len(given))
		}
		nodes[n] = true
		for _, x := range n.Inputs {
			for b := s.Base(x); x != b; x = x.Node().Inputs[access.OperandOf(x)] {
				nodes[x.Node()] = true
			}
			if err := add(x); err != nil {
				return err
			}
		}
		return nil
	}
	for _, v := range values {
		if err := add(v); err != nil {
			return nil, err
		}
	}
	for n := range nodes {
		t.Nodes = append(t.Nodes, n)
	}
	slices.SortFunc(t.Nodes, func(a, b *graph.Node) int { return a.ID() - b.ID() })
	for v := range inputs {
		t.Inputs = append(t.Inputs, v)
	}
	slices.SortFunc(t.Inputs, order)
	return t, nil
}
