package pipeline

import (
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/step/graph"
)

// mostShared is how many bytes a value may have that updates on several ranks are made of:
// norms of gradients, and such.
const mostShared = 64 << 10

// Where a value of the update can be computed, if it is not one rank.
const (
	anywhere   = -1 // on each rank
	everywhere = -2 // on each rank, of values of several ranks
)

// update says which rank replaces which state.
//
// A gradient is on one rank, and so is what an optimizer makes of it: that rank owns the
// state. What is made of values of several ranks, such as a norm of all gradients, is
// computed on each of them: the values meet there, and have to be small.
type update struct {
	*anatomy
	ranks  int
	at     map[graph.Value]int // ranks of gradients
	owner  []int               // of each state that the update replaces: a rank, or everywhere; anywhere for others
	home   map[*graph.Node]int // where operations run
	shared []graph.Value       // what ranks tell each other
}

// divideUpdate finds out who updates what. rankOf has the rank of each gradient.
func (a *anatomy) divideUpdate(ranks int, rankOf map[graph.Value]int) (*update, error) {
	u := &update{anatomy: a, ranks: ranks, at: rankOf, owner: make([]int, len(a.step.State)), home: map[*graph.Node]int{}}
	later := map[int]bool{}
	for i, st := range a.step.State {
		u.owner[i] = anywhere
		if !a.updated(i) {
			continue
		}
		gradients, others := u.madeOf(st.Next)
		for _, j := range others {
			if a.changes(j) {
				return nil, bad("the update of %s depends on %s, which changes with each micro-batch", describe(st.Param), describe(a.step.State[j].Param))
			}
		}
		own := join(u.at, a.elementwise(st.Next, st.Param.Shape()))
		if own < 0 {
			own = join(u.at, gradients)
		}
		u.owner[i] = own
		later[i] = own == anywhere
	}
	u.follow(later)
	for _, n := range a.step.Graph.Nodes() {
		u.home[n] = u.homeOf(n)
	}
	return u, u.findShared()
}

// join is the one rank of some values.
func join(at map[graph.Value]int, values []graph.Value) int {
	rank := anywhere
	for _, v := range values {
		rank = both(rank, at[v])
	}
	return rank
}

func both(a, b int) int {
	switch {
	case a == anywhere || a == b:
		return b
	case b == anywhere:
		return a
	}
	return everywhere
}

// madeOf are the gradients and the states that the update makes a value of.
func (u *update) madeOf(v graph.Value) (gradients []graph.Value, states []int) {
	for _, x := range u.leaves([]graph.Value{v}, u.isGradient) {
		if u.isGradient(x) {
			gradients = append(gradients, x)
		} else if i, ok := u.state[x]; ok {
			states = append(states, i)
		}
	}
	return gradients, states
}

func (u *update) isGradient(v graph.Value) bool {
	_, ok := u.at[v]
	return ok
}

// follow gives states that are made of no gradient, such as means of weights, to the owner
// of the states that they are made of, and those made of themselves alone to everybody.
func (u *update) follow(later map[int]bool) {
	for moved := true; moved; {
		moved = false
		for i, st := range u.step.State {
			if !later[i] {
				continue
			}
			_, others := u.madeOf(st.Next)
			for _, j := range others {
				u.owner[i] = both(u.owner[i], u.owner[j])
			}
			if u.owner[i] != anywhere {
				delete(later, i)
				moved = true
			}
		}
	}
	for i := range u.owner {
		if later[i] {
			u.owner[i] = everywhere
		}
	}
}

// homeOf is where an operation of the update can run.
func (u *update) homeOf(n *graph.Node) int {
	if i, ok := u.state[n.Value(0)]; ok {
		if u.owner[i] == everywhere {
			return anywhere
		}
		return u.owner[i]
	}
	rank := anywhere
	for _, v := range n.Inputs {
		rank = both(rank, u.place(v))
	}
	return rank
}

func (u *update) place(v graph.Value) int {
	if at, ok := u.at[v]; ok {
		return at
	}
	return u.home[v.Node()]
}

// needs is what a rank's update takes to make values: state, gradients, and values of other
// ranks.
func (u *update) needs(rank int, values []graph.Value) []graph.Value {
	return u.leaves(values, func(v graph.Value) bool {
		at := u.place(v)
		return u.isGradient(v) || at >= 0 && at != rank
	})
}

// next are the states that a rank's update replaces.
func (u *update) next(rank int) (list []int) {
	for i, owner := range u.owner {
		if owner == rank || owner == everywhere {
			list = append(list, i)
		}
	}
	return list
}

func (u *update) results(states []int) (list []graph.Value) {
	for _, i := range states {
		list = append(list, u.step.State[i].Next)
	}
	return list
}

// findShared finds the values that ranks need of each other.
func (u *update) findShared() error {
	var large []string
	for rank := range u.ranks {
		for _, v := range u.needs(rank, u.results(u.next(rank))) {
			at := u.place(v)
			_, state := u.state[v]
			switch {
			case v.Node().Op == graph.Parameter && !state:
				return bad("the update depends on %s, and may depend on a batch through the gradients alone", describe(v))
			case at < 0 || at == rank || slices.Contains(u.shared, v):
				continue
			}
			u.shared = append(u.shared, v)
			if v.Shape().Bytes() > mostShared {
				large = append(large, v.Node().String())
			}
		}
	}
	if large != nil {
		return bad("updates on several ranks need values of more than %s of each other: %s", units.Bytes(mostShared), strings.Join(large, "; "))
	}
	return nil
}

// graphOf is the graph of a rank's update that makes values, with means of micro-batches.
func (u *update) graphOf(rank, micro int, values []graph.Value) (part, error) {
	p := part{in: u.needs(rank, values), out: values}
	if len(values) == 0 {
		return p, nil
	}
	g, err := u.step.Graph.Part(p.in, values)
	if err != nil {
		return p, err
	}
	sums := map[int]graph.Shape{}
	for k, v := range p.in {
		if u.isGradient(v) && u.at[v] == rank {
			sums[k] = sumShape(v)
		}
	}
	p.graph, err = mean(g, sums, micro)
	return p, err
}

// sharedOf are the values that a rank tells the others.
func (u *update) sharedOf(rank int) (list []graph.Value) {
	for _, v := range u.shared {
		if u.place(v) == rank {
			list = append(list, v)
		}
	}
	return list
}
