package pipeline

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/train"
)

// anatomy is what the operations of a step are for.
//
// Those that depend on a batch are placed: each runs in one stage. Others run wherever
// they are wanted. Of these, the ones that depend on a state that changes with each
// micro-batch, such as random numbers, run on the way forward alone.
type anatomy struct {
	step     *train.Step
	batch    map[*graph.Node]bool // depends on a batch
	drawn    map[*graph.Node]bool // depends on a state that changes with each micro-batch
	forward  map[*graph.Node]bool // the loss is made of it, or what changes with each micro-batch
	backward map[*graph.Node]bool // gradients are made of it besides

	spine []*graph.Node                 // placed ones that the loss is made of, in order: what is cut
	aside []*graph.Node                 // other placed ones of the way forward
	back  []*graph.Node                 // placed ones of the way back
	reads map[*graph.Node][]graph.Value // weights that operations read, or what they read is made of, where that is not placed
	state map[graph.Value]int           // numbers of state
	of    map[graph.Value][]graph.Value // of a gradient, the state that it updates, element by element
	users map[graph.Value][]*graph.Node // placed operations that read a placed value
	first map[*graph.Node]*graph.Node   // of what is not placed, the first placed operation of the way forward that wants it
}

// dissect finds the anatomy of a step that was checked.
func dissect(s *train.Step) (*anatomy, error) {
	a := &anatomy{
		step: s, batch: map[*graph.Node]bool{}, drawn: map[*graph.Node]bool{}, reads: map[*graph.Node][]graph.Value{},
		state: map[graph.Value]int{}, of: map[graph.Value][]graph.Value{}, users: map[graph.Value][]*graph.Node{}, first: map[*graph.Node]*graph.Node{},
	}
	for _, v := range s.Batch {
		a.batch[v.Node()] = true
	}
	for i, st := range s.State {
		a.state[st.Param] = i
		if a.changes(i) {
			a.drawn[st.Param.Node()] = true
		}
	}
	for _, n := range s.Graph.Nodes() {
		for _, v := range n.Inputs {
			a.batch[n] = a.batch[n] || a.batch[v.Node()]
			a.drawn[n] = a.drawn[n] || a.drawn[v.Node()]
		}
	}
	loss := made(s.Graph, s.Loss)
	ends := []graph.Value{s.Loss}
	for i, st := range s.State {
		if a.changes(i) {
			ends = append(ends, st.Next)
		}
	}
	a.forward = made(s.Graph, ends...)
	a.backward = made(s.Graph, s.Gradients...)
	for _, n := range s.Graph.Nodes() {
		if a.forward[n] {
			delete(a.backward, n)
		}
		switch {
		case !a.placed(n):
		case loss[n]:
			a.spine = append(a.spine, n)
		case a.forward[n]:
			a.aside = append(a.aside, n)
		default:
			a.back = append(a.back, n)
		}
		a.note(n)
	}
	if !a.placed(s.Loss.Node()) {
		return nil, bad("the loss depends on no batch")
	}
	a.findTargets()
	return a, nil
}

// changes reports whether a state has another value after each micro-batch.
func (a *anatomy) changes(state int) bool {
	st := a.step.State[state]
	return st.Each && st.Next != (graph.Value{}) && st.Next != st.Param
}

// updated reports whether a state has another value after the update.
func (a *anatomy) updated(state int) bool {
	st := a.step.State[state]
	return !st.Each && st.Next != (graph.Value{}) && st.Next != st.Param
}

// placed reports whether an operation runs in one stage.
func (a *anatomy) placed(n *graph.Node) bool {
	return a.batch[n] && n.Op != graph.Parameter && (a.forward[n] || a.backward[n])
}

// made are the operations that values are made of.
func made(g *graph.Graph, values ...graph.Value) map[*graph.Node]bool {
	in := map[*graph.Node]bool{}
	for _, v := range values {
		in[v.Node()] = true
	}
	for _, n := range slices.Backward(g.Nodes()) {
		if in[n] {
			for _, v := range n.Inputs {
				in[v.Node()] = true
			}
		}
	}
	return in
}

// note remembers what an operation reads.
func (a *anatomy) note(n *graph.Node) {
	if i, ok := a.state[n.Value(0)]; ok && !a.step.State[i].Each {
		a.reads[n] = []graph.Value{n.Value(0)}
	}
	if !a.forward[n] && !a.backward[n] {
		return
	}
	for _, v := range n.Inputs {
		from := v.Node()
		if a.placed(from) {
			if !slices.Contains(a.users[v], n) {
				a.users[v] = append(a.users[v], n)
			}
			continue
		}
		for _, w := range a.reads[from] {
			if !slices.Contains(a.reads[n], w) {
				a.reads[n] = append(a.reads[n], w)
			}
		}
		if a.placed(n) && a.forward[n] {
			a.want(from, n)
		}
	}
}

// want remembers which placed operation is the first to want others.
func (a *anatomy) want(n, by *graph.Node) {
	if a.first[n] != nil || a.batch[n] {
		return
	}
	a.first[n] = by
	for _, v := range n.Inputs {
		a.want(v.Node(), by)
	}
}

// findTargets finds which state a gradient updates: what comes of the gradient element by
// element takes the state's place.
func (a *anatomy) findTargets() {
	for i, st := range a.step.State {
		if !a.updated(i) {
			continue
		}
		for _, g := range a.elementwise(st.Next, st.Param.Shape()) {
			a.of[g] = append(a.of[g], st.Param)
		}
	}
}

// elementwise are the gradients of a shape that a value is made of, element by element.
func (a *anatomy) elementwise(v graph.Value, s graph.Shape) (list []graph.Value) {
	seen := map[graph.Value]bool{}
	var visit func(v graph.Value)
	visit = func(v graph.Value) {
		if seen[v] || !slices.Equal(v.Shape().Dims, s.Dims) {
			return
		}
		seen[v] = true
		if slices.Contains(a.step.Gradients, v) {
			list = append(list, v)
		} else if c := v.Node().Op.Class(); c == graph.Elementwise || c == graph.View {
			for _, x := range v.Node().Inputs {
				visit(x)
			}
		}
	}
	visit(v)
	return list
}
