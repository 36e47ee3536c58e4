package spmd

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/train"
)

func bad(format string, args ...any) error {
	return fmt.Errorf("spmd: %w: %s", train.ErrArgument, fmt.Sprintf(format, args...))
}

// check fails for what cannot be partitioned.
func check(s *train.Step, ranks, rank int, splits []Split) error {
	if ranks < 1 || rank < 0 || rank >= ranks {
		return bad("rank %d of %d", rank, ranks)
	}
	if err := checkStep(s); err != nil {
		return err
	}
	for i, o := range splits {
		if !slices.Contains(s.Graph.Parameters(), o.Value) {
			return bad("split %d is of %v, which is no parameter of the step", i, o.Value)
		}
		name, shape := describe(o.Value), o.Value.Shape()
		switch {
		case slices.ContainsFunc(splits[:i], func(p Split) bool { return p.Value == o.Value }):
			return bad("%s is split twice", name)
		case o.Axis == Whole:
		case o.Value == s.Scale:
			return bad("%s, the state of a scaler, cannot be split", name)
		case o.Axis < 0 || o.Axis >= shape.Rank():
			return bad("%s, %v, has no axis %d", name, shape, o.Axis)
		case shape.Dims[o.Axis]%ranks != 0:
			return bad("%s, %v, cannot be split along axis %d: %d elements are not %d parts of the same length", name, shape, o.Axis, shape.Dims[o.Axis], ranks)
		}
	}
	return nil
}

// checkStep fails for a step that cannot be written anew.
func checkStep(s *train.Step) error {
	switch {
	case s == nil || s.Graph == nil:
		return bad("a step without a graph")
	case s.Loss == (graph.Value{}):
		return bad("a step without a loss")
	case !s.Loss.Shape().Equal(graph.MakeShape(dtype.F32)):
		return bad("the loss is %v, and not one float32", s.Loss.Shape())
	}
	named, values := slices.Clone(s.Batch), append([]graph.Value{s.Loss}, s.Gradients...)
	for _, st := range s.State {
		named = append(named, st.Param)
		if st.Next == (graph.Value{}) {
			continue
		}
		if values = append(values, st.Next); !st.Next.Shape().Equal(st.Param.Shape()) {
			return bad("%v takes the place of %s, and is %v instead of %v", st.Next, describe(st.Param), st.Next.Shape(), st.Param.Shape())
		}
	}
	params := s.Graph.Parameters()
	for i, v := range named {
		if !slices.Contains(params, v) || slices.Contains(named[:i], v) {
			return bad("%s, which is batch or state, is no parameter of the graph, or is there twice", describe(v))
		}
	}
	for _, p := range params {
		if !slices.Contains(named, p) {
			return bad("%s is neither batch nor state", describe(p))
		}
	}
	if s.Scale != (graph.Value{}) && !slices.Contains(named[len(s.Batch):], s.Scale) {
		return bad("the scaler's %s is no state", describe(s.Scale))
	}
	for _, v := range values {
		if n := v.Node(); n == nil || n.ID() >= len(s.Graph.Nodes()) || s.Graph.Nodes()[n.ID()] != n {
			return bad("%s, which is a result of the step, is not of its graph", describe(v))
		}
	}
	for _, n := range s.Graph.Nodes() {
		if n.Op.Class() == graph.Collective {
			return bad("graph %q has an %v already: %v", s.Graph.Name(), n.Op, n)
		}
	}
	return nil
}

func nameOf(p graph.Value) string { return p.Node().Attr.(*graph.Input).Name }

// describe names any value: a parameter as the user does.
func describe(v graph.Value) string {
	if v != (graph.Value{}) && v.Node().Op == graph.Parameter {
		return fmt.Sprintf("parameter %q", nameOf(v))
	}
	return v.String()
}
