package step

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step/graph"
)

// defaultBucket is how many bytes ranks reduce together: enough that the time before the
// first byte does not count, and so few that most of them travel while others are computed.
const defaultBucket = 25 << 20

// withRanks is a graph with what ranks reduce together in buckets.
func withRanks(g *graph.Graph, dev device.Device, o Options) (*graph.Graph, error) {
	i := slices.IndexFunc(g.Nodes(), func(n *graph.Node) bool { return n.Op.Class() == graph.Collective })
	switch {
	case i < 0:
		return g, nil
	case o.Ranks == nil:
		return nil, fmt.Errorf("step: graph %q: %w: it has an %v, and Options.Ranks is nil", g.Name(), ErrArgument, g.Nodes()[i].Op)
	case slices.ContainsFunc(g.Nodes(), func(n *graph.Node) bool {
		t, ok := n.Attr.(*graph.Together)
		return ok && t.Ranks != 0 && t.Ranks != o.Ranks.Size()
	}):
		return nil, fmt.Errorf("step: graph %q: %w: it is not for %d ranks", g.Name(), ErrArgument, o.Ranks.Size())
	case !device.Same(o.Ranks.Device(), dev):
		return nil, fmt.Errorf("step: graph %q: %w: its memory is on %s, and that of Options.Ranks on %s", g.Name(), ErrArgument, dev.Info().ID, o.Ranks.Device().Info().ID)
	case o.BucketBytes < 0:
		return nil, fmt.Errorf("step: graph %q: %w: BucketBytes is %d", g.Name(), ErrArgument, o.BucketBytes)
	}
	bytes := o.BucketBytes
	if bytes == 0 {
		bytes = defaultBucket
	}
	return graph.Bucket(g, bytes), nil
}

// together is the operation of a task that ranks do together; nil: it is none.
func (t *Task) together() *graph.Node {
	if n := t.Nodes[len(t.Nodes)-1]; n.Op.Class() == graph.Collective {
		return n
	}
	return nil
}

// whole is the task of an operation that ranks do together, with all that it reads and
// writes, whatever an executor made of it.
func whole(n *graph.Node) *Task {
	t := &Task{Nodes: []*graph.Node{n}}
	t.finish()
	return t
}

// collective is the kernel of what ranks do together. It runs on a stream of its own,
// beside those of other tasks.
type collective struct {
	ranks parallel.Comm
	node  *graph.Node
}

// Scratch implements [Kernel]. What ranks have beyond a result is received beside it.
func (k *collective) Scratch() (bytes int64) {
	for i := range k.node.Shapes {
		bytes += k.beyond(i)
	}
	return bytes
}

// beyond is how many bytes ranks have of a result, aligned, if these are more than it has;
// else 0.
func (k *collective) beyond(i int) int64 {
	if k.node.Op != graph.AllGather {
		return 0
	}
	n := int64(k.ranks.Size()) * k.node.Inputs[i].Shape().Bytes()
	if n == k.node.Shapes[i].Bytes() {
		return 0
	}
	return (n + memoryAlign - 1) / memoryAlign * memoryAlign
}

// CanAlias implements [Aliaser].
func (k *collective) CanAlias(output, input int) bool {
	if k.node.Attr.(*graph.Together).Into {
		return input == len(k.node.Shapes)+output
	}
	return k.node.Op == graph.AllReduce && output == input
}

// Launch implements [Kernel].
func (k *collective) Launch(s device.Stream, inputs, outputs []device.Ptr, scratch device.Ptr) error {
	op := parallel.Sum
	if k.node.Attr.(*graph.Together).Mean {
		op = parallel.Avg
	}
	parts := make([]parallel.Part, len(outputs))
	for i, shape := range k.node.Shapes {
		parts[i] = parallel.Part{Recv: outputs[i], Send: inputs[i], N: int64(shape.Size())}
	}
	switch t := k.node.Shapes[0].Type; k.node.Op {
	case graph.AllReduce:
		return k.ranks.AllReduce(s, t, op, parts...)
	case graph.ReduceScatter:
		return k.ranks.ReduceScatter(s, t, op, parts...)
	default:
		for i := range parts {
			parts[i].N = k.node.Inputs[i].Shape().Bytes()
			if n := k.beyond(i); n > 0 {
				parts[i].Recv, scratch = scratch, scratch.Add(n)
			}
		}
		if err := k.ranks.AllGather(s, parts...); err != nil {
			return err
		}
		for i, shape := range k.node.Shapes {
			if parts[i].Recv != outputs[i] {
				if err := s.CopyD2D(outputs[i], parts[i].Recv, shape.Bytes()); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// waitForRanks finds which launches have to wait for what ranks do together: the first that
// reads a result of it, or takes memory that it works on. All behind that come later, too.
func (x *Executable) waitForRanks() error {
	for i := range x.launches {
		n := &x.launches[i]
		if n.unit.task.together() == nil {
			continue
		}
		if n.done == nil {
			var err error
			if n.done, err = x.dev.NewEvent(device.EventNoTiming); err != nil {
				return err
			}
		}
		busy := append(x.areas(n), n.scratchArea()...)
		for j := i + 1; j < len(x.launches); j++ {
			if m := &x.launches[j]; x.touches(m, busy) {
				m.ranks = append(m.ranks, n)
				break
			}
		}
	}
	return nil
}

// area is memory: bytes at an address, or a buffer that lies wherever a run has it.
type area struct {
	from, to device.Ptr
	buffer   int
}

func (a area) meets(b area) bool {
	if a.to == 0 || b.to == 0 {
		return a.to == 0 && b.to == 0 && a.buffer == b.buffer
	}
	return a.from < b.to && b.from < a.to
}

// areas are where the values lie that a launch reads and writes.
func (x *Executable) areas(n *launch) (list []area) {
	for _, p := range slices.Concat(n.in, n.out) {
		list = append(list, x.area(p))
	}
	return list
}

// scratchArea is the memory that the kernel needs besides, if any.
func (n *launch) scratchArea() []area {
	if size := n.unit.kernel.Scratch(); size > 0 {
		return []area{{from: n.scratch, to: n.scratch + device.Ptr(size)}}
	}
	return nil
}

func (x *Executable) area(p spot) area {
	if p.planned != 0 {
		return area{from: p.planned, to: p.planned + device.Ptr(alignedBytes(x.buffers[p.buffer].value.Shape()))}
	}
	b := p.buffer
	if param, ok := x.inPlace[x.buffers[b].out]; ok && x.buffers[b].out >= 0 {
		b = slices.IndexFunc(x.buffers, func(o buffer) bool { return o.param == param })
	}
	return area{buffer: b}
}

// touches reports whether a launch, or a copy before it, uses any of the memory. What ranks
// do together comes behind all that they did before; only the copies before it do not.
func (x *Executable) touches(n *launch, busy []area) bool {
	var list []area
	if n.unit.task.together() == nil {
		list = append(x.areas(n), n.scratchArea()...)
	}
	for _, l := range n.copies.Fetch {
		list = append(list, x.area(spot{x.place(x.plan.Lives[l]), x.plan.Lives[l].Value}))
	}
	return slices.ContainsFunc(list, func(a area) bool { return slices.ContainsFunc(busy, a.meets) })
}
