package step

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/step/plan"
)

// Options say how a graph is compiled.
type Options struct {
	// Budget is the most bytes of device memory for parameters, constants, results and
	// everything between. What the budget has no room for is computed again, or sent to
	// the host and back. Default: 0, no limit.
	Budget int64

	// Donate says for each parameter whether callers give its memory away: a result of
	// the same size, such as new weights, may then lie in it, and the budget counts it
	// once. Default: nil, none.
	Donate []bool

	// Lend says for each result whether it lies in memory of the executable's. It is there
	// until the next run or Close, and must not be an input of the same executable. The
	// budget counts it from when it is written on, not from the start: gradients are no
	// burden to the forward pass. Default: nil, each result has memory of its own, which
	// is the caller's.
	Lend []bool

	// Link is how many bytes a second go to the host and back, beside the computation,
	// in each direction, while both are busy. Plans count on somewhat less. Default: 0,
	// nothing is sent.
	Link float64

	// Latency is how long a copy to the host or back takes besides. Default: 5 µs.
	Latency time.Duration

	// HostBytes is the most memory on the host for what is sent. Default: 0, no limit.
	HostBytes int64

	// Ranks are who computes the step together, all with the same graph and options:
	// what its [graph.AllReduce] sums up. The executable queues operations of it on a
	// stream of its own, beside other tasks, and does not close it. Its device is the
	// executor's. All ranks run, and measure, as often as each other. Default: nil,
	// nobody; such a graph is refused.
	Ranks parallel.Comm

	// RanksSpeed is how fast Ranks are together, such as [parallel.MeasureSpeed] found, for
	// the times of the plan. Default: what they do together takes no time.
	RanksSpeed parallel.Speed

	// BucketBytes is how many bytes ranks reduce together at most: values that are
	// computed one after the other. Default: 25 MiB.
	BucketBytes int64

	// Speed is what the estimate of a task's time is made of.
	Speed Speed

	// Seconds says how long a task takes, such as [Times.Seconds] of what
	// [Executable.Measure] found. Default: the estimate.
	Seconds func(*Task) float64

	// Capture says whether the step is recorded when it runs again with the same addresses,
	// and launched as one from then on. That saves the time of queueing task after task,
	// and takes some memory of the device's driver beside the plan. Default: [CaptureAuto].
	Capture Capture

	// Block is where values between parameters and results lie, in turn with those of other
	// executables. It does not go together with Lend, nor with sessions. Default: nil, the
	// executable has memory of its own for them.
	Block *Block

	// Memory is what makes the results. Default: one that takes memory from the device,
	// and is closed with the executable.
	Memory *Memory
}

// linkShare is how much of the link's rate plans count on. If a plan needs all of it, each
// 5 % that the link is slower, or tasks faster, than was said make the step of a GPT or a
// ResNet-50 1.6 to 2 % longer. To count on 7 % less makes it 0.1 to 0.4 % longer.
const linkShare = 0.93

// memoryAlign is what buffers begin at multiples of.
const memoryAlign = 256

func alignedBytes(s graph.Shape) int64 {
	return (s.Bytes() + memoryAlign - 1) / memoryAlign * memoryAlign
}

// buffer is memory that a value has, with all views of it.
type buffer struct {
	value graph.Value // as it is written
	param int         // which parameter it is; -1: none
	out   int         // which result it is; -1: none
	fixed device.Ptr
}

// unit is a task with the buffers that it works on.
type unit struct {
	task    *Task
	kernel  Kernel
	in, out []int // buffers
}

// Compile makes an executable of a graph with outputs. It fails with [ErrArgument] for
// a graph without, with [ErrNotSupported] where the executor lacks an operation, and
// with a [*plan.ImpossibleError] where the budget is too small.
func Compile(g *graph.Graph, exec Executor, o Options) (*Executable, error) {
	opt, err := passed(g, exec, o)
	if err != nil {
		return nil, err
	}
	return compileFolded(opt, exec, o)
}

// Plan returns the plan that [Compile] would make, and fails as it does. It takes no
// memory of the device but that for constants of a few KiB, for a moment.
func Plan(g *graph.Graph, exec Executor, o Options) (*plan.Plan, error) {
	opt, err := passed(g, exec, o)
	if err != nil {
		return nil, err
	}
	x := newExecutable(opt, exec, o)
	if err := x.compile(o); err != nil {
		return nil, err
	}
	return x.plan, nil
}

// passed is the graph after all passes.
func passed(g *graph.Graph, exec Executor, o Options) (*graph.Graph, error) {
	if g == nil || exec == nil {
		return nil, fmt.Errorf("step: %w: no graph, or no executor", ErrArgument)
	}
	if len(g.Outputs()) == 0 {
		return nil, fmt.Errorf("step: graph %q: %w: it has no outputs", g.Name(), ErrArgument)
	}
	if o.Donate != nil && len(o.Donate) != len(g.Parameters()) {
		return nil, fmt.Errorf("step: graph %q: %w: Donate is for %d of %d parameters", g.Name(), ErrArgument, len(o.Donate), len(g.Parameters()))
	}
	if o.Lend != nil && len(o.Lend) != len(g.Outputs()) {
		return nil, fmt.Errorf("step: graph %q: %w: Lend is for %d of %d results", g.Name(), ErrArgument, len(o.Lend), len(g.Outputs()))
	}
	if o.Block != nil && slices.Contains(o.Lend, true) {
		return nil, fmt.Errorf("step: graph %q: %w: results are lent, and lie in a block that others use", g.Name(), ErrArgument)
	}
	opt, err := fold(graph.Optimize(g), exec)
	if err != nil {
		return nil, err
	}
	return withRanks(graph.Optimize(opt), exec.Device(), o)
}

func newExecutable(g *graph.Graph, exec Executor, o Options) *Executable {
	return &Executable{graph: g, exec: exec, dev: exec.Device(), memory: o.Memory, inPlace: map[int]int{}, turn: make(chan struct{}, 1)}
}

// compileFolded compiles a graph on which no pass is left to do.
func compileFolded(g *graph.Graph, exec Executor, o Options) (*Executable, error) {
	x := newExecutable(g, exec, o)
	err := x.compile(o)
	if err == nil {
		err = x.open(o.Block)
	}
	if err != nil {
		return nil, keepFirst(err, x.Close())
	}
	return x, nil
}

// compile makes kernels and a plan.
func (x *Executable) compile(o Options) error {
	at := x.makeBuffers()
	all := tasks(x.graph)
	if f, ok := x.exec.(Fuser); ok {
		var err error
		if all, err = f.Fuse(x.graph); err != nil {
			return err
		}
	}
	for _, t := range all {
		var k Kernel
		var err error
		if n := t.together(); n != nil {
			t = whole(n)
			k = &collective{o.Ranks, n}
		} else if k, err = x.exec.Compile(t); err != nil {
			return err
		}
		u := unit{task: t, kernel: k}
		for _, v := range t.Inputs {
			u.in = append(u.in, at[v])
		}
		for _, v := range t.Outputs {
			u.out = append(u.out, at[v])
		}
		x.units = append(x.units, u)
	}
	x.arrange(at, o.Donate)
	if o.Budget > 0 {
		x.others(at)
	}
	x.planned = x.planGraph(o)
	rate := linkShare * o.Link
	p, err := plan.Make(x.planned, plan.Options{Budget: o.Budget, Out: rate, Back: rate, Latency: cmp.Or(o.Latency, 5*time.Microsecond).Seconds(), HostBytes: o.HostBytes, Align: memoryAlign})
	if err != nil {
		return fmt.Errorf("step: graph %q: %w", x.graph.Name(), err)
	}
	x.plan = p
	for _, l := range p.Lives {
		if l.Scratch || l.Offset < 0 {
			continue
		}
		out := x.buffers[l.Value].out
		if _, given := x.inPlace[out]; out >= 0 && (given || !o.lends(out)) {
			return fmt.Errorf("step: graph %q: the plan has result %d not in the memory of the parameter that it was given", x.graph.Name(), x.buffers[l.Value].out)
		}
	}
	x.replays, err = openReplays(o.Capture, x.dev, len(x.plan.Runs))
	return err
}

// makeBuffers finds the values that have memory of their own, and returns which buffer
// each value lies in.
func (x *Executable) makeBuffers() map[graph.Value]int {
	at := map[graph.Value]int{}
	for _, n := range x.graph.Nodes() {
		for i := range n.Shapes {
			v := n.Value(i)
			if n.Op.Class() == graph.View && n.Op != graph.Identity {
				at[v] = at[n.Inputs[i]]
				continue
			}
			b := buffer{value: v, param: -1, out: slices.Index(x.graph.Outputs(), v)}
			if n.Op == graph.Parameter {
				b.param = n.Attr.(*graph.Input).Index
			}
			at[v] = len(x.buffers)
			x.buffers = append(x.buffers, b)
		}
	}
	return at
}

// lends reports whether a result lies in memory of the executable's.
func (o *Options) lends(result int) bool { return o.Lend != nil && o.Lend[result] }

// planGraph describes the units to the planner: values are buffers.
func (x *Executable) planGraph(o Options) plan.Graph {
	var g plan.Graph
	for _, b := range x.buffers {
		constant, lent := b.value.Node().Op == graph.Constant, b.out >= 0 && o.lends(b.out)
		g.Values = append(g.Values, plan.Value{
			Name:     b.value.Node().Op.String() + " " + b.value.String(),
			Bytes:    alignedBytes(b.value.Shape()),
			Resident: constant || b.param >= 0 || b.out >= 0 && !lent,
			Output:   lent,
		})
	}
	seconds := o.Seconds
	if seconds == nil {
		seconds = o.Speed.Estimate
	}
	lastRead := make([]int, len(x.buffers)) // unit that reads a buffer last
	for i, u := range x.units {
		op := plan.Op{Name: u.task.String(), Reads: u.in, Writes: u.out, Scratch: u.kernel.Scratch()}
		if n := u.task.together(); n == nil {
			op.Seconds = seconds(u.task)
		} else { // ranks do what they do beside the computation
			op.Once, op.Beside = true, max(takes(n, o.Ranks.Size(), o.RanksSpeed), 1e-9) // some time, if nobody knows how long
		}
		g.Ops = append(g.Ops, op)
		for _, b := range u.in {
			lastRead[b] = i
		}
	}
	given := map[int]bool{} // parameters whose memory a result has
	for i, u := range x.units {
		for j, b := range u.out {
			v := &g.Values[b]
			for _, from := range u.in {
				if v.Bytes == 0 || g.Values[from].Bytes != v.Bytes || slices.Contains(v.Over, from) || !u.mayOverwrite(j, from) {
					continue
				}
				param := x.buffers[from].param
				switch {
				case x.buffers[b].out < 0 && !g.Values[from].Resident:
					v.Over = append(v.Over, from)
				case x.buffers[b].out >= 0 && param >= 0 && o.Donate != nil && o.Donate[param] && lastRead[from] == i && !given[from] && len(v.Over) == 0:
					given[from] = true
					v.Over, v.Resident, v.Output = []int{from}, false, true
					x.inPlace[x.buffers[b].out] = param
				}
			}
		}
	}
	x.planAgain(&g, seconds)
	return g
}

// mayOverwrite reports whether the kernel may write a result where a buffer lies that it
// reads.
func (u *unit) mayOverwrite(output, b int) bool {
	k, ok := u.kernel.(Aliaser)
	if !ok {
		return false
	}
	for i, in := range u.in {
		if in == b && !k.CanAlias(output, i) {
			return false
		}
	}
	return true
}

// open allocates what the executable keeps.
func (x *Executable) open(block *Block) error {
	var err error
	if x.memory == nil {
		if x.memory, err = OpenMemory(x.dev, nil); err != nil {
			return err
		}
		x.ownMemory = true
	}
	for i := range x.buffers {
		b := &x.buffers[i]
		data, ok := b.value.Node().Attr.(graph.Data)
		if !ok || len(data) == 0 {
			continue
		}
		t, err := x.memory.Put(data, b.value.Shape())
		if err != nil {
			return x.lacks("constant "+b.value.String(), err)
		}
		x.constants = append(x.constants, t)
		b.fixed = t.Ptr()
	}
	if n := x.plan.Bytes - x.plan.Resident; n > 0 {
		if block != nil {
			x.arena, err = block.join(n)
		} else {
			x.arena, err = x.memory.alloc.Alloc(n)
		}
		if err != nil {
			return x.lacks(between(n), err)
		}
		x.block = block
	}
	x.lent = map[int]int{}
	for l, life := range x.plan.Lives {
		if life.Scratch {
			continue
		}
		if out := x.buffers[life.Value].out; out >= 0 && life.Offset >= 0 && life.To == len(x.plan.Runs)-1 {
			x.lent[out] = l
		}
	}
	if err := x.schedule(); err != nil {
		return err
	}
	together := slices.ContainsFunc(x.launches, func(n launch) bool { return n.done != nil })
	for i := range x.streams {
		if i == ranks && !together {
			continue
		}
		if x.streams[i], err = x.dev.NewStream(); err != nil {
			return err
		}
		device.Label(x.streams[i], [...]string{"step", "step: to the host", "step: from the host", "step: ranks"}[i])
	}
	if err := x.openHost(); err != nil {
		return err
	}
	if x.host != nil {
		x.aside = append(x.aside, toHost, fromHost)
	}
	if together {
		x.aside = append(x.aside, ranks)
	}
	if len(x.aside) > 0 {
		x.mark, err = x.dev.NewEvent(device.EventNoTiming)
	}
	return err
}

// between says what a block is for.
func between(n int64) string { return units.Bytes(n) + " for values between operations" }

// openHost makes room on the host for what is sent, and events for copies.
func (x *Executable) openHost() error {
	x.hosted, x.sent = map[int]int64{}, map[int]int{}
	var bytes int64
	x.copied = make([]device.Event, len(x.plan.Lives))
	for i, l := range x.plan.Lives {
		if !l.Sent && !l.Fetched {
			continue
		}
		if _, ok := x.hosted[l.Value]; !ok {
			x.hosted[l.Value] = bytes
			bytes += alignedBytes(x.buffers[l.Value].value.Shape())
		}
		if l.Sent {
			x.sent[l.Value] = i
		}
		e, err := x.dev.NewEvent(device.EventNoTiming)
		if err != nil {
			return err
		}
		x.copied[i] = e
	}
	if bytes == 0 {
		return nil
	}
	var err error
	if x.pool, err = pinned.NewPool(x.dev, pinned.Options{Name: "step", Budget: bytes + 16<<20, AllowPageable: true}); err != nil {
		return err
	}
	if x.host, err = x.pool.Alloc(background, bytes); err != nil {
		return fmt.Errorf("step: graph %q: %s on the host for what is sent: %w", x.graph.Name(), units.Bytes(bytes), err)
	}
	return nil
}
