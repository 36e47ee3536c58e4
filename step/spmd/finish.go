package spmd

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/train"
)

// finish makes the results of the step, and leaves out what they do not need.
func (w *writer) finish() (*Partitioned, error) {
	s := w.step
	out := &train.Step{Loss: w.as(s.Loss, whole)}
	outputs := []graph.Value{out.Loss}
	for _, st := range s.State {
		var next graph.Value
		if st.Next != (graph.Value{}) {
			next = w.as(st.Next, w.forms[st.Param][0].layout)
			outputs = append(outputs, next)
		}
		out.State = append(out.State, train.State{Next: next, Each: st.Each})
	}
	for _, g := range s.Gradients {
		out.Gradients = append(out.Gradients, w.forms[g][0].value)
	}
	if w.err != nil {
		return nil, w.err
	}
	outputs = append(outputs, out.Gradients...)

	need, now := needed(w.out, outputs), map[graph.Value]graph.Value{}
	pass := passes(w.out, out)
	out.Graph = graph.New(s.Graph.Name())
	out.SplitOver = w.ranks
	p := &Partitioned{Step: out}
	for _, n := range w.out.Nodes() {
		if !need[n] && n.Op != graph.Parameter {
			continue
		}
		out.Graph.Copy(n, now)
		if n.Op.Class() == graph.Collective {
			p.Report.add(n, w.collectives[n], pass(n))
		}
	}
	out.Loss, out.Gradients = now[out.Loss], graph.Translated(out.Gradients, now)
	param := func(v graph.Value) (graph.Value, int) { return now[w.forms[v][0].value], int(w.forms[v][0].layout) }
	for _, v := range s.Batch {
		x, axis := param(v)
		out.Batch, p.Batch = append(out.Batch, x), append(p.Batch, axis)
	}
	for i, st := range s.State {
		x, axis := param(st.Param)
		out.State[i].Param, out.State[i].Next = x, now[out.State[i].Next]
		out.State[i].Part = &train.Part{Whole: st.Param.Shape(), Axis: axis}
		p.State = append(p.State, axis)
		p.Report.WholeState += st.Param.Shape().Bytes()
		p.Report.RankState += x.Shape().Bytes()
		if st.Param == s.Scale {
			out.Scale = x
		}
	}
	return p, out.Graph.SetOutputs(graph.Translated(outputs, now)...)
}

// passes says of operations of a graph in which pass of a step they are.
func passes(g *graph.Graph, s *train.Step) func(*graph.Node) Pass {
	forward, backward := needed(g, []graph.Value{s.Loss}), needed(g, s.Gradients)
	return func(n *graph.Node) Pass {
		switch {
		case forward[n]:
			return Forward
		case backward[n] || len(s.Gradients) == 0:
			return Backward
		}
		return Update
	}
}

// needed are the operations that outputs are made of.
func needed(g *graph.Graph, outputs []graph.Value) map[*graph.Node]bool {
	need := map[*graph.Node]bool{}
	for _, v := range outputs {
		need[v.Node()] = true
	}
	for _, n := range slices.Backward(g.Nodes()) {
		if need[n] {
			for _, v := range n.Inputs {
				need[v.Node()] = true
			}
		}
	}
	return need
}
