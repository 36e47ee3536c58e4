package spmd

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/train"
)

// groups are values of one shape that are computed of each other element by element: a
// weight, its gradient, and what an optimizer keeps of it.
type groups map[graph.Value]*graph.Value

func (g groups) root(v graph.Value) graph.Value {
	for g[v] != nil {
		v = *g[v]
	}
	return v
}

func (g groups) unite(a, b graph.Value) {
	if x, y := g.root(a), g.root(b); x != y && slices.Equal(a.Shape().Dims, b.Shape().Dims) {
		g[y] = &x
	}
}

func groupsOf(s *train.Step) groups {
	g := groups{}
	for _, n := range s.Graph.Nodes() {
		if n.Op.Class() != graph.Elementwise && n.Op != graph.Identity {
			continue
		}
		for _, v := range n.Inputs {
			g.unite(n.Value(0), v)
		}
	}
	for _, st := range s.State {
		if st.Next != (graph.Value{}) {
			g.unite(st.Param, st.Next)
		}
	}
	return g
}

// inherit gives parameters of the state that were not annotated the layout of an annotated
// one in their group: of several, that of the first.
func (p *partitioner) inherit() {
	for _, st := range p.step.State {
		if root := p.groups.root(st.Param); p.annotated[st.Param] {
			if _, ok := p.hints[root]; !ok {
				p.hints[root] = p.params[st.Param]
			}
		}
	}
	for _, st := range p.step.State {
		if l, ok := p.hints[p.groups.root(st.Param)]; ok && !p.annotated[st.Param] && st.Param != p.step.Scale {
			p.params[st.Param] = l
		}
	}
}

// hint is how what is partial is best added up: split as the parameter that it updates.
func (p *partitioner) hint(v graph.Value) layout {
	if l, ok := p.hints[p.groups.root(v)]; ok {
		return l
	}
	return whole
}
