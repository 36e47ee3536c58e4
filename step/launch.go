package step

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/step/plan"
)

// launch is one of the plan's runs, with where its values lie.
type launch struct {
	unit    *unit
	in, out []spot
	scratch device.Ptr
	copies  plan.Run     // whose copies come before it
	sent    []int        // lives of results that go to the host after it
	ranks   []*launch    // what ranks do together that has to be done before
	done    device.Event // behind what ranks do together, if it is that
}

// spot is where a value lies: at an address that the plan gave it, or, if that is zero,
// wherever a run has the buffer.
type spot struct {
	planned device.Ptr
	buffer  int
}

func (p spot) of(at []device.Ptr) device.Ptr {
	if p.planned != 0 {
		return p.planned
	}
	return at[p.buffer]
}

// schedule finds where values lie in each of the plan's runs, and what waits for ranks.
func (x *Executable) schedule() error {
	starts := make([][]int, len(x.plan.Runs)) // lives that begin with a run
	before := x.launches
	x.launches = make([]launch, len(x.plan.Runs))
	for i := range before { // at other addresses
		x.launches[i].done = before[i].done
	}
	for l, life := range x.plan.Lives {
		if life.Scratch {
			x.launches[life.From].scratch = x.place(life)
		} else {
			starts[life.From] = append(starts[life.From], l)
		}
	}
	current := make([]int, len(x.buffers)) // the life in which a value can be read; -1: none
	for i := range current {
		current[i] = -1
	}
	placed := func(life, b int) spot {
		if life < 0 || x.plan.Lives[life].Offset < 0 {
			return spot{0, b}
		}
		return spot{x.place(x.plan.Lives[life]), b}
	}
	for i, run := range x.plan.Runs {
		n := &x.launches[i]
		n.unit, n.copies = x.unit(run.Op), run
		for _, l := range run.Fetch {
			current[x.plan.Lives[l].Value] = l
		}
		for _, b := range n.unit.in {
			n.in = append(n.in, placed(current[b], b))
		}
		for _, b := range n.unit.out {
			made := -1
			for _, l := range starts[i] {
				if life := x.plan.Lives[l]; life.Value == b && !life.Fetched {
					made = l
				}
			}
			n.out = append(n.out, placed(made, b))
			if made < 0 {
				continue
			}
			if x.plan.Lives[made].Sent {
				n.sent = append(n.sent, made)
			}
			if c := current[b]; c < 0 || x.plan.Lives[c].To <= x.plan.Lives[made].To {
				current[b] = made
			}
		}
	}
	return x.waitForRanks()
}

func (x *Executable) place(l plan.Life) device.Ptr { return x.arena + device.Ptr(l.Offset) }

// queue queues the step, with buffers at addresses where the plan has none for them. Marks
// are recorded before and behind tasks, unless they are nil. The first stream is the last
// to end.
func (x *Executable) queue(ctx context.Context, at []device.Ptr, marks *marks) error {
	for _, other := range x.aside {
		if err := x.after(other, compute); err != nil {
			return err
		}
	}
	for i := range x.launches {
		if err := ctx.Err(); err != nil && (i == 0 || x.streams[ranks] == nil) { // other ranks do not end in the middle either
			return fmt.Errorf("step: graph %q: before task %d of %d: %w", x.graph.Name(), i, len(x.launches), err)
		}
		n := &x.launches[i]
		for _, m := range n.ranks {
			if err := x.streams[compute].Wait(m.done); err != nil {
				return err
			}
		}
		if err := x.fetch(n.copies); err != nil {
			return err
		}
		in, out := make([]device.Ptr, len(n.in)), make([]device.Ptr, len(n.out))
		for j, p := range n.in {
			in[j] = p.of(at)
		}
		for j, p := range n.out {
			out[j] = p.of(at)
		}
		if marks != nil && marks.before[i] != nil {
			if err := x.streams[compute].Record(marks.before[i]); err != nil {
				return err
			}
		}
		if err := x.launch(n, in, out); err != nil {
			return fmt.Errorf("step: %v: %w", n.unit.task, err)
		}
		if marks != nil {
			if err := x.streams[compute].Record(marks.behind[i]); err != nil {
				return err
			}
		}
		for _, l := range n.sent {
			if err := x.send(l, n.done); err != nil {
				return err
			}
		}
	}
	for _, other := range x.aside {
		if err := x.after(compute, other); err != nil {
			return err
		}
	}
	return nil
}

// launch queues a task. What ranks do together runs beside others, behind what is queued.
func (x *Executable) launch(n *launch, in, out []device.Ptr) error {
	if n.done == nil {
		return n.unit.kernel.Launch(x.streams[compute], in, out, n.scratch)
	}
	if err := x.after(ranks, compute); err != nil {
		return err
	}
	if err := n.unit.kernel.Launch(x.streams[ranks], in, out, n.scratch); err != nil {
		return err
	}
	return x.streams[ranks].Record(n.done)
}

// after makes later work of one stream wait for what another has queued.
func (x *Executable) after(wait, other int) error {
	if err := x.streams[other].Record(x.mark); err != nil {
		return err
	}
	return x.streams[wait].Wait(x.mark)
}

// fetch begins what is fetched before a run, and makes the run wait for the copies that it
// needs.
func (x *Executable) fetch(run plan.Run) error {
	here, back := x.streams[compute], x.streams[fromHost]
	for _, l := range run.Release {
		if err := here.Wait(x.copied[l]); err != nil {
			return err
		}
	}
	if len(run.Fetch) > 0 {
		if err := x.after(fromHost, compute); err != nil { // what lay there before is read
			return err
		}
	}
	for _, l := range run.Fetch {
		life := x.plan.Lives[l]
		// Others may still be on their way to the host.
		if err := back.Wait(x.copied[x.sent[life.Value]]); err != nil {
			return err
		}
		if err := back.CopyH2D(x.place(life), x.hostBytes(life.Value)); err != nil {
			return err
		}
		if err := back.Record(x.copied[l]); err != nil {
			return err
		}
	}
	for _, l := range run.Wait {
		if err := here.Wait(x.copied[l]); err != nil {
			return err
		}
	}
	return nil
}

// send copies what a run wrote to the host, behind done, unless that is nil.
func (x *Executable) send(l int, done device.Event) error {
	life, out := x.plan.Lives[l], x.streams[toHost]
	if err := x.after(toHost, compute); err != nil {
		return err
	}
	if done != nil {
		if err := out.Wait(done); err != nil {
			return err
		}
	}
	if err := out.CopyD2H(x.hostBytes(life.Value), x.place(life)); err != nil {
		return err
	}
	return out.Record(x.copied[l])
}

func (x *Executable) hostBytes(b int) []byte {
	n := x.buffers[b].value.Shape().Bytes()
	return x.host.Bytes()[x.hosted[b]:][:n]
}
