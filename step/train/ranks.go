package train

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/saved"
)

// OverRanks is the step of several ranks, each with batches of its own: weights are updated
// by the means of all ranks' gradients, which [graph.AllReduce] makes, and stay the same on
// all. Loss is of a rank's own batch. [Open] does it where Options.Compile has Ranks; with
// several micro-batches, ranks then meet once a step.
//
// What is told of each micro-batch ([State].Each), such as means that normalisations keep,
// is a rank's own.
func (s *Step) OverRanks() (*Step, error) {
	o, err := s.overRanks(1, 0, Options{})
	if err != nil {
		return nil, err
	}
	return &o.Step, nil
}

// split reports whether ranks run the step as it is: it is split over them, or there is
// something in it that they do together.
func (s *Step) split() bool {
	return s.SplitOver > 0 || s.Graph != nil && slices.ContainsFunc(s.Graph.Nodes(), func(n *graph.Node) bool { return n.Op.Class() == graph.Collective })
}

// over is a step of several ranks.
type over struct {
	Step
	shares []*share // of State, those of which a rank has a share and no more; nil: it has all
	shared bool     // there are updates that ranks share
}

// overRanks is OverRanks of ranks that share some of it.
func (s *Step) overRanks(ranks, rank int, o Options) (*over, error) {
	sharing := o.Share
	if err := s.check(1); err != nil {
		return nil, err
	}
	if len(s.Gradients) == 0 {
		return nil, fmt.Errorf("train: %w: ranks have no gradients to reduce: Step.Gradients is empty", ErrArgument)
	}
	if err := s.throughGradients(); ranks > 1 && err != nil {
		return nil, err
	}
	w := &rewriter{
		builder: &builder{Graph: graph.New(s.Graph.Name())}, step: s, inside: s.before(),
		now: map[graph.Value]graph.Value{}, mean: map[graph.Value]graph.Value{}, own: map[graph.Value]graph.Value{},
		ranks: ranks, rank: rank, sharing: sharing, means: graph.AllReduceOptions{Mean: true, Type: o.Average},
	}
	if ranks > 1 && sharing != ShareNothing {
		w.shares = w.findShares()
	}
	if sharing == ShareWeights {
		w.weights = newGathering(w)
	}
	for _, n := range s.Graph.Nodes() {
		w.write(n)
		for i := range n.Shapes { // what ranks share of a gradient leaves as soon as it is there
			if v := n.Value(i); w.shares[v] != nil && w.isGradient(v) {
				w.ownOf(v)
			}
		}
	}
	out := &over{shared: len(w.shares) > 0, Step: Step{
		Graph: w.Graph, Batch: graph.Translated(s.Batch, w.now), Loss: w.now[s.Loss], Gradients: graph.Translated(s.Gradients, w.now), Scale: w.now[s.Scale],
	}}
	if sharing == ShareWeights { // sums of gradients are shared, too
		for i, v := range s.Gradients {
			if w.own[v] != (graph.Value{}) {
				out.Gradients[i] = w.own[v]
			}
		}
	}
	for _, st := range s.State {
		next := State{Param: w.now[st.Param], Each: st.Each}
		shared := w.shares[st.Param]
		if w.wantedWhole(st.Param.Node()) {
			shared = nil
		}
		switch {
		case st.Next == (graph.Value{}):
		case shared != nil:
			next.Next = w.ownOf(st.Next)
		case w.shares[st.Next] != nil:
			next.Next = w.gather(w.ownOf(st.Next), w.now[st.Param])
		default:
			next.Next = w.reduced(st.Next)
		}
		out.State, out.shares = append(out.State, next), append(out.shares, shared)
	}
	return out, w.err
}

// throughGradients fails if an update depends on a rank's batch otherwise: ranks would have
// other weights.
func (s *Step) throughGradients() error {
	var inputs, outputs []graph.Value
	for _, st := range s.State {
		inputs = append(inputs, st.Param)
		if !st.Each && st.Next != (graph.Value{}) {
			outputs = append(outputs, st.Next)
		}
	}
	for _, g := range s.Gradients {
		if !slices.Contains(inputs, g) {
			inputs = append(inputs, g)
		}
	}
	if len(outputs) == 0 {
		return nil
	}
	if _, err := s.Graph.Part(inputs, outputs); err != nil {
		return fmt.Errorf("train: updates of ranks may depend on a batch through Step.Gradients alone: %w", err)
	}
	return nil
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

// rewriter writes a step anew.
type rewriter struct {
	*builder
	step   *Step
	inside map[*graph.Node]bool        // what gradients are made of
	now    map[graph.Value]graph.Value // what values of the step are now
	mean   map[graph.Value]graph.Value // gradients of all ranks

	ranks, rank int
	sharing     Sharing
	means       graph.AllReduceOptions      // of gradients
	weights     *gathering                  // of [ShareWeights]
	shares      map[graph.Value]*share      // of values that ranks share
	own         map[graph.Value]graph.Value // the rank's share of them
}

// write writes an operation.
func (w *rewriter) write(n *graph.Node) {
	v := n.Value(0)
	shared := w.shares[v] != nil && !w.wantedWhole(n) && n.Op != graph.Constant
	switch {
	case w.err != nil:
	case shared && n.Op != graph.Parameter:
		w.own[v] = w.part(n)
	case !w.inside[n] && w.sharedWhole(n):
		w.now[v] = w.over(n)
	case shared:
		w.now[v] = w.do(func() (graph.Value, error) { return w.Parameter(saved.Name(v), w.shares[v].of(v.Shape())) })
		w.own[v] = w.now[v]
	case w.inside[n] && w.weights != nil:
		w.weights.write(n)
	case w.inside[n]:
		w.Copy(n, w.now)
	default:
		seen := map[graph.Value]graph.Value{}
		for _, v := range n.Inputs {
			seen[v] = w.reduced(v)
		}
		w.Copy(n, seen)
		for i := range n.Shapes {
			w.now[n.Value(i)] = seen[n.Value(i)]
		}
	}
}

// reduced is a value as updates read it: of a gradient, the mean of all ranks, which is
// made when the first asks for it.
func (w *rewriter) reduced(v graph.Value) graph.Value {
	if !w.isGradient(v) {
		if w.weights != nil {
			return w.weights.read(v, backward)
		}
		return w.now[v]
	}
	if w.mean[v] == (graph.Value{}) {
		w.mean[v] = w.one(w.AllReduce(w.means, w.now[v]))
	}
	return w.mean[v]
}

func (w *rewriter) isGradient(v graph.Value) bool {
	for _, g := range w.step.Gradients {
		if g == v {
			return true
		}
	}
	return false
}

// one is the one result of an operation of ranks.
func (w *rewriter) one(list []graph.Value, err error) graph.Value {
	if w.err != nil || err != nil {
		return w.keep(graph.Value{}, err)
	}
	return list[0]
}
