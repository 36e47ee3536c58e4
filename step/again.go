package step

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/plan"
)

// Remaker is a [Fuser] that can make values in other company than it fused them, when
// they are wanted again.
type Remaker interface {
	Fuser

	// Remake returns a task that writes values, which have memory, and reads some of those
	// that are given. Its results are the bits that its other tasks make. It fails with
	// [ErrNotSupported] where that is not sure, or no one task does it.
	Remake(values, given []graph.Value) (*Task, error)
}

const (
	// worthRemaking is how large values are that are made in other company.
	worthRemaking = 16 << 10
	// nearby is how many units lie at most between one that makes a value besides, and one
	// that wants it.
	nearby = 12
)

// other is a unit that makes values again, as a [plan.Again].
type other struct {
	unit
	of    *Task // whose time says how long it takes, by the bytes that it moves
	place *Task // that it runs in place of; nil: none
}

// others finds what may run where values are wanted again. Of a unit with several results,
// each by itself may be made of the others: a normalised row of the row, its mean and its
// deviation, without the sum that the row was. And what a unit makes may be made by
// another one besides that reads the same: an activation by what makes its gradient.
// Those that want it run behind that then.
func (x *Executable) others(at map[graph.Value]int) {
	r, ok := x.exec.(Remaker)
	if !ok {
		return
	}
	for i := range x.units {
		u := &x.units[i]
		for j, v := range u.task.Outputs {
			if len(u.out) < 2 || !x.remade(u.out[j]) {
				continue
			}
			given := slices.Clone(u.task.Inputs)
			for k, w := range u.task.Outputs {
				if k != j {
					given = append(given, w)
				}
			}
			x.offer(r, at, []graph.Value{v}, given, other{of: u.task})
		}
	}
	x.besides(r, at)
}

// remade reports whether a buffer is of a size and a kind that it may be made again.
func (x *Executable) remade(b int) bool {
	return x.buffers[b].out < 0 && alignedBytes(x.buffers[b].value.Shape()) >= worthRemaking
}

// besides finds values that units make besides their own.
func (x *Executable) besides(r Remaker, at map[graph.Value]int) {
	readers := x.readers()
	moved := map[*Task]*Task{} // what runs behind another unit
	places := map[*Task]bool{} // units that others run behind, which stay where they are
	for g := range x.units {
		u := &x.units[g]
		if len(u.out) != 1 || !x.remade(u.out[0]) {
			continue
		}
		value := u.out[0]
		for _, d := range x.sharing(u, readers) {
			place := x.units[d].task
			wants, ok := x.wanting(value, g, d, readers)
			if !ok || moved[place] != nil || slices.ContainsFunc(wants, func(p int) bool { return places[x.units[p].task] }) {
				continue
			}
			given := slices.Concat(place.Inputs, u.task.Inputs)
			if x.offer(r, at, append(slices.Clone(place.Outputs), u.task.Outputs[0]), given, other{of: place, place: place}) {
				for _, p := range wants {
					moved[x.units[p].task], places[place] = place, true
				}
				break
			}
		}
	}
	var units []unit
	behind := map[*Task][]unit{}
	for _, u := range x.units {
		if place := moved[u.task]; place != nil {
			behind[place] = append(behind[place], u)
			continue
		}
		units = append(append(units, u), behind[u.task]...)
	}
	x.units = units
}

// readers are the units that read each buffer.
func (x *Executable) readers() [][]int {
	readers := make([][]int, len(x.buffers))
	for i, u := range x.units {
		for _, b := range u.in {
			if n := len(readers[b]); n == 0 || readers[b][n-1] != i {
				readers[b] = append(readers[b], i)
			}
		}
	}
	return readers
}

// sharing are units far behind one that read the largest of what that reads.
func (x *Executable) sharing(u *unit, readers [][]int) []int {
	large, most := -1, int64(0)
	for _, b := range u.in {
		if n := alignedBytes(x.buffers[b].value.Shape()); n > most && x.buffers[b].param < 0 {
			large, most = b, n
		}
	}
	if large < 0 || most < worthRemaking {
		return nil
	}
	return readers[large]
}

// wanting are the units that read a value shortly before unit d, and can run behind it;
// false if none of them reads the value nearby, after a time without it.
func (x *Executable) wanting(value, g, d int, readers [][]int) (before []int, ok bool) {
	last := g
	for _, p := range readers[value] {
		switch {
		case p == d:
			return nil, false
		case p > d:
			return before, ok || p <= d+nearby && d-last > nearby
		case p < d-nearby:
			last = p
		default:
			// It may run later if nobody waits for it. Ranks keep their order.
			u := &x.units[p]
			if p-last <= nearby || u.task.together() != nil || slices.ContainsFunc(u.out, func(b int) bool { return len(readers[b]) > 0 }) {
				return nil, false
			}
			before, ok = append(before, p), true
		}
	}
	return before, ok
}

// offer compiles a task that makes values again; false if there is none.
func (x *Executable) offer(r Remaker, at map[graph.Value]int, values, given []graph.Value, o other) bool {
	t, err := r.Remake(values, given)
	if err != nil {
		return false
	}
	k, err := x.exec.Compile(t)
	if err != nil {
		return false
	}
	o.unit = unit{task: t, kernel: k}
	for _, v := range t.Inputs {
		o.in = append(o.in, at[v])
	}
	for _, v := range t.Outputs {
		o.out = append(o.out, at[v])
	}
	x.again = append(x.again, o)
	return true
}

// planAgain describes the others to the planner.
func (x *Executable) planAgain(g *plan.Graph, seconds func(*Task) float64) {
	number := map[*Task]int{}
	for i, u := range x.units {
		number[u.task] = i
	}
	x.again = slices.DeleteFunc(x.again, func(o other) bool {
		for j, b := range o.out {
			for _, from := range o.in {
				if slices.Contains(g.Values[b].Over, from) && !o.mayOverwrite(j, from) {
					return true
				}
			}
			if g.Values[b].Resident {
				return true
			}
		}
		if o.place != nil {
			for _, b := range x.units[number[o.place]].in {
				if !slices.Contains(o.in, b) {
					return true
				}
			}
		}
		return false
	})
	for _, o := range x.again {
		a := plan.Again{For: -1}
		a.Name, a.Reads, a.Writes, a.Scratch = o.task.String(), o.in, o.out, o.kernel.Scratch()
		a.Seconds = seconds(o.of) * float64(o.task.bytes()) / float64(max(1, o.of.bytes()))
		if o.place != nil {
			a.For = number[o.place]
			a.Scratch = max(a.Scratch, g.Ops[a.For].Scratch)
			a.Seconds = max(a.Seconds, g.Ops[a.For].Seconds)
		}
		g.Again = append(g.Again, a)
	}
}

// bytes are those that a task reads and writes.
func (t *Task) bytes() (n int64) {
	for _, list := range [][]graph.Value{t.Inputs, t.Outputs} {
		for _, v := range list {
			n += v.Shape().Bytes()
		}
	}
	return n
}

// unit is what a run of the plan runs.
func (x *Executable) unit(op int) *unit {
	if op < len(x.units) {
		return &x.units[op]
	}
	return &x.again[op-len(x.units)].unit
}
