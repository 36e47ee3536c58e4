package pipeline

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// placement says in which stage each placed operation runs. A value of the way forward is
// there in all stages from its own to that which reads it last; on the way back, values go
// to the lowest stage that reads them.
type placement struct {
	*anatomy
	stages int
	stage  map[*graph.Node]int
	last   map[graph.Value]int // of the way forward: the highest stage that has it
	low    map[graph.Value]int // the lowest stage that a value comes to on the way back, if it leaves its own

	weights map[graph.Value][]int // stages in which the way forward reads a state, in order
	cast    map[graph.Value]bool  // weights in another type, which stages that read them make once for all micro-batches
}

// place finds a stage for everything, given those of the spine.
func (a *anatomy) place(stages int, spine func(i int) int) *placement {
	p := &placement{anatomy: a, stages: stages, stage: map[*graph.Node]int{}, last: map[graph.Value]int{}, low: map[graph.Value]int{}, weights: map[graph.Value][]int{}}
	for i, n := range a.spine {
		p.stage[n] = spine(i)
	}
	for _, n := range a.aside { // where all that it reads is first there
		for _, v := range n.Inputs {
			p.stage[n] = max(p.stage[n], p.stage[v.Node()])
		}
	}
	for _, n := range slices.Concat(a.spine, a.aside) {
		s := p.stage[n]
		for i := range n.Shapes {
			p.last[n.Value(i)] = s
		}
		for _, w := range a.reads[n] {
			if at, found := slices.BinarySearch(p.weights[w], s); !found {
				p.weights[w] = slices.Insert(p.weights[w], at, s)
			}
		}
	}
	for _, n := range slices.Concat(a.spine, a.aside) {
		for _, v := range n.Inputs {
			p.reach(v, p.stage[n])
		}
	}
	for _, n := range a.back {
		p.stage[n] = p.highest(n)
	}
	for _, n := range slices.Backward(a.back) {
		p.sink(n)
	}
	for _, n := range a.back {
		s := p.stage[n]
		for _, v := range n.Inputs {
			if from, ok := p.stage[v.Node()]; ok && s < from {
				p.low[v] = min(s, p.lowest(v))
			} else if ok {
				p.reach(v, s)
			}
		}
	}
	return p
}

// castOnce has weights in another type made once for all micro-batches, and kept meanwhile.
func (p *placement) castOnce() {
	p.cast = map[graph.Value]bool{}
	for _, n := range p.step.Graph.Nodes() {
		if n.Op == graph.Convert && !p.batch[n] && !p.drawn[n] && n.Inputs[0].Node().Op == graph.Parameter {
			p.cast[n.Value(0)] = true
		}
	}
}

// reach has a value of the way forward passed on to a stage.
func (p *placement) reach(v graph.Value, stage int) {
	if last, ok := p.last[v]; ok {
		p.last[v] = max(last, stage)
	}
}

// lowest is the lowest stage that has a value on the way back.
func (p *placement) lowest(v graph.Value) int {
	if low, ok := p.low[v]; ok {
		return low
	}
	return p.stage[v.Node()]
}

// highest is the highest stage, not above those of the gradients that an operation reads,
// that has all the values of the way forward, and the weights, that it reads. If there is
// none, they come to it.
func (p *placement) highest(n *graph.Node) int {
	top := p.stages - 1
	for _, v := range n.Inputs {
		if s, ok := p.stage[v.Node()]; ok && !p.forward[v.Node()] {
			top = min(top, s)
		}
	}
	low, high := 0, top
	for _, v := range n.Inputs {
		if last, ok := p.last[v]; ok {
			low, high = max(low, p.stage[v.Node()]), min(high, last)
		}
	}
	for s := high; s >= low; s-- {
		next := s // at which, or below which, all weights are
		for _, w := range p.reads[n] {
			next = min(next, below(p.weights[w], s))
		}
		if next == s {
			return s
		}
		s = next + 1
	}
	if low <= high {
		return high
	}
	return min(low, top)
}

// below is the highest of stages up to s; s if there are none at all, and -1 if all are above.
func below(stages []int, s int) int {
	if len(stages) == 0 {
		return s
	}
	at, found := slices.BinarySearch(stages, s)
	switch {
	case found:
		return s
	case at == 0:
		return -1
	}
	return stages[at-1]
}

// sink moves an operation of the way back to the stage that reads what it makes, or that
// has the weight whose gradient that is, if no more goes from stage to stage then.
func (p *placement) sink(n *graph.Node) {
	from, to := p.stage[n], -1
	for i := range n.Shapes {
		v := n.Value(i)
		for _, u := range p.users[v] {
			to = max(to, p.stage[u])
		}
		if slices.Contains(p.step.Gradients, v) {
			to = max(to, p.home(v, from))
		}
	}
	if to < 0 || to >= from {
		return
	}
	var more, less int64
	for i, s := range n.Shapes {
		if v := n.Value(i); len(p.users[v]) > 0 || slices.Contains(p.step.Gradients, v) {
			less += s.Bytes()
		}
	}
	for _, w := range p.reads[n] {
		if below(p.weights[w], to) != to {
			return
		}
	}
	for _, v := range n.Inputs {
		s, placed := p.stage[v.Node()]
		switch last, forward := p.last[v]; {
		case !placed:
		case forward && (to < s || to > last):
			return
		case !forward:
			there := false
			for _, u := range p.users[v] {
				there = there || u != n && p.stage[u] <= to
			}
			if !there {
				more += v.Shape().Bytes()
			}
		}
	}
	if more <= less {
		p.stage[n] = to
	}
}

// home is the highest stage up to from that reads a state which a gradient updates.
func (p *placement) home(g graph.Value, from int) int {
	best := -1
	for _, w := range p.of[g] {
		if len(p.weights[w]) > 0 {
			best = max(best, below(p.weights[w], from))
		}
	}
	if best < 0 {
		return from
	}
	return best
}

// gradientStage is the stage in which a gradient is added up.
func (p *placement) gradientStage(g graph.Value) int {
	if s, ok := p.stage[g.Node()]; ok {
		return s
	}
	s := 0 // it depends on no batch
	for _, w := range p.reads[g.Node()] {
		if at := p.weights[w]; len(at) > 0 {
			s = max(s, at[len(at)-1])
		}
	}
	return s
}
