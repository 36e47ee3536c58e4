package train

import (
	"fmt"

	"github.com/pinion-gpu/pinion/step/graph"
)

// OverRanks is the step of several ranks, each with batches of its own: weights are updated
// by the means of all ranks' gradients, which [graph.AllReduce] makes, and stay the same on
// all. Loss is of a rank's own batch. [Open] does it where Options.Compile has Ranks; with
// several micro-batches, ranks then meet once a step.
//
// What is told of each micro-batch ([State].Each), such as means that normalisations keep,
// is a rank's own.
func (s *Step) OverRanks() (*Step, error) {
	if err := s.check(1); err != nil {
		return nil, err
	}
	if len(s.Gradients) == 0 {
		return nil, fmt.Errorf("train: %w: ranks have no gradients to reduce: Step.Gradients is empty", ErrArgument)
	}
	inside := s.before()
	b := &builder{Graph: graph.New(s.Graph.Name())}
	now, reduced := map[graph.Value]graph.Value{}, map[graph.Value]graph.Value{}
	for _, n := range s.Graph.Nodes() {
		if inside[n] {
			b.Copy(n, now)
		} else {
			seen := now
			if len(reduced) > 0 {
				seen = map[graph.Value]graph.Value{}
				for _, v := range n.Inputs {
					if seen[v] = now[v]; reduced[v] != (graph.Value{}) {
						seen[v] = reduced[v]
					}
				}
			}
			b.Copy(n, seen)
			for i := range n.Shapes {
				now[n.Value(i)] = seen[n.Value(i)]
			}
		}
		for _, g := range s.Gradients {
			if g.Node() == n {
				reduced[g] = b.do(func() (graph.Value, error) {
					mean, err := b.AllReduce(graph.AllReduceOptions{Mean: true}, now[g])
					if err != nil {
						return graph.Value{}, err
					}
					return mean[0], nil
				})
			}
		}
	}
	if b.err != nil {
		return nil, b.err
	}
	out := &Step{Graph: b.Graph, Batch: graph.Translated(s.Batch, now), Loss: now[s.Loss], Gradients: graph.Translated(s.Gradients, now), Scale: now[s.Scale]}
	for _, st := range s.State {
		next := now[st.Next]
		if r, ok := reduced[st.Next]; ok {
			next = r
		}
		out.State = append(out.State, State{Param: now[st.Param], Next: next, Each: st.Each})
	}
	return out, nil
}

// before are the operations that gradients and the loss are made of: they read a gradient
// as it is.
func (s *Step) before() map[*graph.Node]bool {
	inside := map[*graph.Node]bool{s.Loss.Node(): true}
	for _, g := range s.Gradients {
		inside[g.Node()] = true
	}
	nodes := s.Graph.Nodes()
	for i := len(nodes) - 1; i >= 0; i-- {
		if inside[nodes[i]] {
			for _, v := range nodes[i].Inputs {
				inside[v.Node()] = true
			}
		}
	}
	return inside
}
