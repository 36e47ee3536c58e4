package spmd

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/train"
)

// Whole is in the place of an axis of what each rank has all of.
const Whole = -1

// Split is an annotation: ranks split a parameter of a step, in their order, into parts of
// the same length along an axis. Axis may be [Whole], so that the parameter is not split
// whatever is computed of it.
type Split struct {
	Value graph.Value
	Axis  int
}

// Partitioned is a step as one rank of several runs it.
type Partitioned struct {
	// Step has what the given step has, in the same order. [train.Open] runs it, with
	// Options.Compile.Ranks of as many ranks. The checkpoints of its Runner are those of the
	// given step: any number of ranks goes on with them, however they split it. All
	// ranks give batches of the same samples, each its part of those that are split. Loss is
	// the same on all ranks. Gradients are what the update is made of, as they come: whole,
	// the rank's part, or a summand.
	Step *train.Step

	Batch  []int // the axis that each of Step.Batch is split along, or [Whole]
	State  []int // that of each of Step.State: also of states that follow from annotated ones
	Report Report
}

// Partition writes a step, which stays as it is, anew as that of one rank. Values that are
// computed of split parameters are split as far as that goes, and ranks sum up, or gather,
// where it ends. The results are those of the step, but for the order in which sums are
// rounded. Graphs of ranks differ only in which parts they take of values that are whole: so
// all do the same operations together, in the same order.
//
// State that was not annotated is split like an annotated parameter that it is updated with,
// element by element, such as the moments of a weight; and if what takes its place comes out
// split, so that the weights on both sides of an annotated one need not be annotated.
// Step.Scale is always whole.
//
// It fails with [train.ErrArgument] for a rank that is none, an annotation of what is no
// parameter of the step, of one twice, or of an axis that there is not, or that ranks cannot
// split into parts of the same length; and for a step that has operations of ranks already.
//
// It is GSPMD with a mesh of one axis: Xu et al., GSPMD: General and Scalable
// Parallelization for ML Computation Graphs, 2021.
func Partition(s *train.Step, ranks, rank int, splits []Split) (*Partitioned, error) {
	if err := check(s, ranks, rank, splits); err != nil {
		return nil, err
	}
	p := newPartitioner(s, ranks, rank, splits)
	for {
		w := p.write()
		if w.err != nil {
			return nil, w.err
		}
		if !p.follow(w) {
			return w.finish()
		}
	}
}

// partitioner knows of a step what does not change while it is written, again and again,
// until there is no more to split.
type partitioner struct {
	step        *train.Step
	ranks, rank int
	params      map[graph.Value]layout // of parameters; those that are not there are whole
	annotated   map[graph.Value]bool
	groups      groups
	hints       map[graph.Value]layout // of groups, by their roots
	needed      map[*graph.Node]bool
	readers     map[graph.Value][]*graph.Node
	gradient    map[graph.Value]bool
	wanted      map[graph.Value]bool // results of the step but gradients
}

func newPartitioner(s *train.Step, ranks, rank int, splits []Split) *partitioner {
	p := &partitioner{
		step: s, ranks: ranks, rank: rank, groups: groupsOf(s), hints: map[graph.Value]layout{},
		params: map[graph.Value]layout{}, annotated: map[graph.Value]bool{},
		readers: map[graph.Value][]*graph.Node{}, gradient: map[graph.Value]bool{}, wanted: map[graph.Value]bool{s.Loss: true},
	}
	for _, o := range splits {
		p.annotated[o.Value] = true
		if p.params[o.Value] = layout(o.Axis); ranks == 1 {
			p.params[o.Value] = whole
		}
	}
	p.inherit()
	for _, g := range s.Gradients {
		p.gradient[g] = true
	}
	results := append(slices.Clone(s.Gradients), s.Loss)
	for _, st := range s.State {
		if st.Next != (graph.Value{}) {
			p.wanted[st.Next] = true
			results = append(results, st.Next)
		}
	}
	p.needed = needed(s.Graph, results)
	for _, n := range s.Graph.Nodes() {
		if p.needed[n] {
			for _, v := range n.Inputs {
				p.readers[v] = append(p.readers[v], n)
			}
		}
	}
	return p
}

// write writes the step with parameters as they are split so far.
func (p *partitioner) write() *writer {
	w := &writer{
		partitioner: p, out: graph.New(p.step.Graph.Name()), forms: map[graph.Value]forms{},
		isFree: map[graph.Value]bool{}, collectives: map[*graph.Node]graph.Value{},
	}
	for _, n := range p.step.Graph.Nodes() {
		if w.err == nil && (p.needed[n] || n.Op == graph.Parameter) {
			w.write(n)
		}
	}
	return w
}

// follow has whole state split as what takes its place, and reports whether there is more
// of it than before.
func (p *partitioner) follow(w *writer) (more bool) {
	for _, st := range p.step.State {
		if st.Next == (graph.Value{}) || p.annotated[st.Param] || st.Param == p.step.Scale || w.layout(st.Param).split() {
			continue
		}
		if l := w.layout(st.Next); l.split() {
			p.params[st.Param], more = l, true
		}
	}
	return more
}
