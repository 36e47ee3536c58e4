package pipeline

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/saved"
	"github.com/pinion-gpu/pinion/step/train"
)

func bad(format string, args ...any) error {
	return fmt.Errorf("pipeline: %w: %s", ErrArgument, fmt.Sprintf(format, args...))
}

// check fails unless a step can be cut at all.
func check(s *train.Step) error {
	switch {
	case s.Graph == nil:
		return bad("a step without a graph")
	case s.Loss == (graph.Value{}) || !s.Loss.Shape().Equal(graph.MakeShape(dtype.F32)):
		return bad("the loss is %v, and not one float32", s.Loss.Shape())
	case len(s.Gradients) == 0:
		return bad("there is no way back: Step.Gradients is empty")
	case s.SplitOver > 0:
		return bad("a step that is split over %d ranks: stages have ranks of their own", s.SplitOver)
	case s.Scale != (graph.Value{}):
		return bad("a scaler, which looks at the gradients of all stages before it says whether a step counts")
	}
	named := slices.Clone(s.Batch)
	for _, st := range s.State {
		named = append(named, st.Param)
		if st.Next != (graph.Value{}) && !st.Next.Shape().Equal(st.Param.Shape()) {
			return bad("%v takes the place of %s, and is %v instead of %v", st.Next, describe(st.Param), st.Next.Shape(), st.Param.Shape())
		}
	}
	params := s.Graph.Parameters()
	for i, v := range named {
		if !slices.Contains(params, v) || slices.Contains(named[:i], v) {
			return bad("%v, which is batch or state, is no parameter of the graph, or is there twice", v)
		}
	}
	if len(named) != len(params) {
		return bad("%d of %d parameters are neither batch nor state", len(params)-len(named), len(params))
	}
	for i, g := range s.Gradients {
		switch {
		case !g.Shape().Type.IsFloat():
			return bad("gradient %v is of no floating-point type", g)
		case slices.Contains(s.Gradients[:i], g):
			return bad("gradient %v is there twice", g)
		case slices.Contains(params, g):
			return bad("gradient %d is %s itself", i, describe(g))
		}
	}
	for _, n := range s.Graph.Nodes() {
		if n.Op.Class() == graph.Collective {
			return bad("%v, which ranks do together: stages have ranks of their own", n)
		}
	}
	return nil
}

// describe names any value: a parameter as the user does.
func describe(v graph.Value) string {
	if v != (graph.Value{}) && v.Node().Op == graph.Parameter {
		return fmt.Sprintf("parameter %q", saved.Name(v))
	}
	return v.String()
}
