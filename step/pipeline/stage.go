package pipeline

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// part is a graph of values of the step.
type part struct {
	graph *graph.Graph  // nil: there is nothing to do
	in    []graph.Value // its parameters
	out   []graph.Value // its results, as far as they are values of the step
}

// stage is what one stage computes, and what comes in and goes out.
type stage struct {
	forward, backward part
	cast              part // weights in another type, which both read

	up, down  []graph.Value        // what each micro-batch sends to the next stage, and to the one before
	kept      map[graph.Value]bool // what the way back wants of the way forward
	changes   []int                // state that is replaced on the way forward, with each micro-batch
	gradients []int                // which of the gradients are added up here: results of backward behind out
	state     map[int]bool         // which it reads
}

// stagesOf makes the graphs of all stages.
func (p *placement) stagesOf() ([]*stage, error) {
	all := make([]*stage, p.stages)
	for s := range all {
		all[s] = &stage{kept: map[graph.Value]bool{}, state: map[int]bool{}}
	}
	for _, n := range p.step.Graph.Nodes() {
		s, placed := p.stage[n]
		for i := range n.Shapes {
			v := n.Value(i)
			if last, ok := p.last[v]; ok {
				for at := s; at < last; at++ {
					all[at].up = append(all[at].up, v)
				}
			}
			if low, ok := p.low[v]; ok && placed {
				for at := s; at > low; at-- {
					all[at].down = append(all[at].down, v)
				}
			}
		}
	}
	for i, g := range p.step.Gradients {
		s := p.gradientStage(g)
		all[s].gradients = append(all[s].gradients, i)
	}
	for s, st := range all {
		p.fillBackward(st, s)
	}
	if err := p.fillForward(all); err != nil {
		return nil, err
	}
	for s, st := range all {
		if err := p.write(st, s == len(all)-1); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// leaves are what values are made of, in the order of the graph, down to what leaf says is
// given. Parameters are always given.
func (a *anatomy) leaves(values []graph.Value, leaf func(v graph.Value) bool) (list []graph.Value) {
	needed, given := map[*graph.Node]bool{}, map[graph.Value]bool{}
	want := func(v graph.Value) {
		if v.Node().Op == graph.Parameter || leaf(v) {
			given[v] = true
		} else {
			needed[v.Node()] = true
		}
	}
	for _, v := range values {
		want(v)
	}
	nodes := a.step.Graph.Nodes()
	for _, n := range slices.Backward(nodes) {
		if needed[n] {
			for _, v := range n.Inputs {
				want(v)
			}
		}
	}
	for _, n := range nodes {
		for i := range n.Shapes {
			if given[n.Value(i)] {
				list = append(list, n.Value(i))
			}
		}
	}
	return list
}

// fillBackward finds what the way back of a stage makes and takes, and keeps of the way
// forward.
func (p *placement) fillBackward(st *stage, s int) {
	for _, v := range st.down {
		switch own := p.stage[v.Node()] == s; {
		case own && p.forward[v.Node()]:
			st.kept[v] = true
		case own:
			st.backward.out = append(st.backward.out, v)
		}
	}
	wanted := slices.Clone(st.backward.out)
	for _, i := range st.gradients {
		wanted = append(wanted, p.step.Gradients[i])
	}
	st.backward.in = p.leaves(wanted, func(v graph.Value) bool {
		at, placed := p.stage[v.Node()]
		return placed && (p.forward[v.Node()] || at != s) || p.drawn[v.Node()] && p.forward[v.Node()] || p.cast[v]
	})
	for _, v := range st.backward.in {
		if at, placed := p.stage[v.Node()]; p.forward[v.Node()] && placed && at <= s || !placed && p.drawn[v.Node()] {
			st.kept[v] = true
		}
	}
}

// fillForward finds what the ways forward make and take. A state that changes with each
// micro-batch has a copy in each stage that reads it, if it depends on no batch, such as
// that of random numbers.
func (p *placement) fillForward(all []*stage) error {
	for i, st := range p.step.State {
		if s, placed := p.stage[st.Next.Node()]; p.changes(i) && placed {
			all[s].changes = append(all[s].changes, i)
		}
	}
	for s, st := range all {
		for _, v := range p.values() {
			at, placed := p.stage[v.Node()]
			own := placed && at == s && p.forward[v.Node()]
			if own && (p.last[v] > s || st.kept[v]) || !placed && st.kept[v] {
				st.forward.out = append(st.forward.out, v)
			}
		}
		p.settle(st, s, len(all))
	}
	for i, state := range p.step.State {
		if !p.changes(i) {
			continue
		}
		held := 0
		for s, st := range all {
			if !slices.Contains(st.changes, i) {
				continue
			}
			held++
			if at, placed := p.stage[state.Next.Node()]; placed && at != s {
				return bad("%s is read in stage %d, and what takes its place after each micro-batch is computed in stage %d", describe(state.Param), s, at)
			}
		}
		if held == 0 {
			all[0].changes = append(all[0].changes, i)
			p.settle(all[0], 0, len(all))
		}
	}
	return nil
}

// settle finds what a way forward takes, with the state that it replaces for that.
func (p *placement) settle(st *stage, s, stages int) {
	for {
		wanted := slices.Clone(st.forward.out)
		for _, i := range st.changes {
			wanted = append(wanted, p.step.State[i].Next)
		}
		if s == stages-1 {
			wanted = append(wanted, p.step.Loss)
		}
		st.forward.in = p.leaves(wanted, func(v graph.Value) bool {
			at, placed := p.stage[v.Node()]
			return placed && at != s || p.cast[v]
		})
		more := false
		for _, v := range st.forward.in {
			if i, ok := p.state[v]; ok && p.changes(i) && !slices.Contains(st.changes, i) {
				st.changes, more = append(st.changes, i), true
			}
		}
		if !more {
			return
		}
	}
}

// values are all values of the step, in order.
func (a *anatomy) values() (list []graph.Value) {
	for _, n := range a.step.Graph.Nodes() {
		for i := range n.Shapes {
			list = append(list, n.Value(i))
		}
	}
	return list
}

// write writes the graphs of a stage. Results of forward are its values, what takes the
// place of state, and the loss if it is the last stage; those of backward are its values
// and the sums of gradients.
func (p *placement) write(st *stage, last bool) (err error) {
	results := slices.Clone(st.forward.out)
	for _, i := range st.changes {
		results = append(results, p.step.State[i].Next)
	}
	if last {
		results = append(results, p.step.Loss)
	}
	if len(results) > 0 {
		if st.forward.graph, err = p.step.Graph.Part(st.forward.in, results); err != nil {
			return err
		}
	}
	results = slices.Clone(st.backward.out)
	for _, i := range st.gradients {
		results = append(results, p.step.Gradients[i])
	}
	if len(results) > 0 {
		if st.backward.graph, err = p.step.Graph.Part(st.backward.in, results); err != nil {
			return err
		}
		if len(st.gradients) > 0 {
			err = addUp(st.backward.graph, st.gradients)
		}
	}
	if err != nil {
		return err
	}
	for _, v := range p.values() {
		if p.cast[v] && (slices.Contains(st.forward.in, v) || slices.Contains(st.backward.in, v)) {
			st.cast.out = append(st.cast.out, v)
		}
	}
	st.cast.in = p.leaves(st.cast.out, func(graph.Value) bool { return false })
	if len(st.cast.out) > 0 {
		st.cast.graph, err = p.step.Graph.Part(st.cast.in, st.cast.out)
	}
	for _, v := range slices.Concat(st.cast.in, st.forward.in, st.backward.in) {
		if i, ok := p.state[v]; ok {
			st.state[i] = true
		}
	}
	return err
}
