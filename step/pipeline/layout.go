package pipeline

import (
	"slices"

	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/train"
)

// Options say how a step is cut and run. They are the same on all ranks, and so is what
// Seconds returns: each rank finds the cut by itself.
type Options struct {
	// Micro is how many micro-batches a step is made of. Their gradients are added up in
	// float32, and weights are updated once, by the mean.
	Micro int

	// Chunks is how many stages each rank has. With more than one, ranks wait less and send
	// more, and Micro is a multiple of the ranks. Default: 1.
	Chunks int

	// Compile is how graphs are compiled. Its Budget, Donate, Lend and Ranks are not asked.
	// Its Memory makes what is received, too, and frees without waiting for queued work, which
	// may be an exchange with other ranks. Default: one that keeps what is freed for the next
	// of its size. With a Memory or a Block of the caller's, each pass is waited for.
	Compile step.Options

	// Seconds is how long an operation takes, for the cut. Default: the estimate of
	// Compile.Speed for a task of its own.
	Seconds func(*graph.Node) float64

	// Link is how many bytes a second go from one rank to another. Stages count what they
	// are sent by it. Default: 0, sends take no time.
	Link float64

	// Budget is the most bytes that a rank may have of state, of sums of gradients, and of
	// what micro-batches under way keep for the way back; each of its Chunks has an equal
	// part. It is an estimate of the cut's, and not all that the device holds. Default: 0,
	// no limit: then stages keep weights in the type that products read, too, instead of
	// converting them in each pass.
	Budget int64
}

// layout is a step that was cut: the same on all ranks.
type layout struct {
	*placement
	o        Options
	ranks    int
	schedule [][]Op
	parts    []*stage
	update   *update
	seconds  func(*graph.Node) float64
	inFlight []int // of each stage
}

// lay cuts a step for so many ranks.
func lay(s *train.Step, ranks int, o Options) (*layout, error) {
	o.Chunks = max(o.Chunks, 1)
	if err := check(s); err != nil {
		return nil, err
	}
	l := &layout{o: o, ranks: ranks}
	var err error
	if l.schedule, err = Schedule(ranks, o.Chunks, o.Micro, false); err != nil {
		return nil, err
	}
	a, err := dissect(s)
	if err != nil {
		return nil, err
	}
	if l.seconds = o.Seconds; l.seconds == nil {
		l.seconds = func(n *graph.Node) float64 { return estimate(o.Compile.Speed, n) }
	}
	f := a.profile(l.seconds)
	stages := ranks * o.Chunks
	within := limits{stages, o.Budget / int64(o.Chunks), inFlight(l.schedule), o.Link}
	cuts, err := f.cut(within)
	if err != nil {
		return nil, err
	}
	// The order that hides sends has more under way: not where that moves what is cut.
	eager, err := Schedule(ranks, o.Chunks, o.Micro, true)
	if err != nil {
		return nil, err
	}
	within.inFlight = inFlight(eager)
	same := o.Budget == 0 // which nothing under way counts for
	if !same {
		got, err := f.cut(within)
		same = err == nil && slices.Equal(got, cuts)
	}
	if same {
		l.schedule = eager
	}
	l.inFlight = inFlight(l.schedule)
	l.placement = a.place(stages, func(i int) int {
		at, found := slices.BinarySearch(cuts, i)
		if found {
			at++
		}
		return at
	})
	if o.Budget == 0 {
		l.castOnce()
	}
	if l.parts, err = l.stagesOf(); err != nil {
		return nil, err
	}
	rankOf := map[graph.Value]int{}
	for _, g := range s.Gradients {
		rankOf[g] = l.gradientStage(g) % ranks
	}
	l.update, err = a.divideUpdate(ranks, rankOf)
	return l, err
}

// estimate is how long an operation takes as a task of its own. What makes no memory takes
// no time.
func estimate(s step.Speed, n *graph.Node) float64 {
	if c := n.Op.Class(); n.Op == graph.Parameter || n.Op == graph.Constant || c == graph.View && n.Op != graph.Identity {
		return 0
	}
	t := &step.Task{Nodes: []*graph.Node{n}, Inputs: n.Inputs}
	for i := range n.Shapes {
		t.Outputs = append(t.Outputs, n.Value(i))
	}
	return s.Estimate(t)
}

// holders are the ranks that have a state: that which replaces it, or reads it in a stage,
// or in an update that is not another's. All have one that is replaced everywhere.
func (l *layout) holders(state int) (ranks []int) {
	param := l.step.State[state].Param
	for rank := range l.ranks {
		holds := l.update.owner[state] == everywhere || l.update.owner[state] == rank
		for s := rank; s < len(l.parts); s += l.ranks {
			holds = holds || l.parts[s].state[state]
		}
		if l.update.owner[state] == anywhere {
			holds = holds || slices.Contains(l.update.needs(rank, append(l.update.results(l.update.next(rank)), l.update.sharedOf(rank)...)), param)
		}
		if holds {
			ranks = append(ranks, rank)
		}
	}
	if ranks == nil {
		ranks = []int{0}
	}
	return ranks
}

// keeper is the rank whose copy of a state is told to others.
func (l *layout) keeper(state int) int {
	if l.changes(state) {
		return slices.IndexFunc(l.parts, func(s *stage) bool { return slices.Contains(s.changes, state) }) % l.ranks
	}
	if owner := l.update.owner[state]; owner >= 0 {
		return owner
	}
	return l.holders(state)[0]
}
