package step

import (
	"cmp"
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// arrange orders the units for memory. What only writes results, or turns a value that
// nobody else reads into another in its place, runs as soon as what it reads is there: an
// optimizer's updates come right behind each gradient, wherever the graph has them. What
// makes a result of a donated parameter runs behind the last unit that reads that, so
// that the result can lie in its memory. What ranks do together begins as soon as its
// operands are there, or where the graph has it if it is to be late, and what reads it
// comes behind the beginning of the next such: then it is done, or the link is the limit.
// Where they make results alone, such as new weights of each one's share, it runs early, too.
// What is made of what is there from the start, such as a share of the weights, and read by
// what runs early alone, is made right before that.
func (x *Executable) arrange(at map[graph.Value]int, donate []bool) {
	readers := make([][]int, len(x.buffers))
	writer := make([]int, len(x.buffers))
	for b := range writer {
		writer[b] = -1
	}
	for i, u := range x.units {
		for _, b := range u.in {
			if n := len(readers[b]); n == 0 || readers[b][n-1] != i {
				readers[b] = append(readers[b], i)
			}
		}
		for _, b := range u.out {
			writer[b] = i
		}
	}
	behind := make([]int, len(x.units)) // the unit that each follows, or the unit itself
	for i := range behind {
		behind[i] = i
	}
	ready := x.together(at, readers, writer, behind)
	barred := x.barred(at)
	floats := make([]bool, len(x.units)) // units that run right before what runs early and reads what they write
	for i := range x.units {
		u := &x.units[i]
		first := start
		for _, v := range u.task.Inputs {
			first = max(first, due(v, at, writer, ready))
		}
		if first == start && x.floats(u, readers, writer, floats) && !barred[u.out[0]] {
			floats[i], ready[i] = true, first
			continue
		}
		if !x.early(u, readers, writer) {
			behind[i] = max(behind[i], first)
			ready[i] = max(ready[i], behind[i])
			continue
		}
		for _, from := range x.givenTo(u, donate) {
			for _, r := range readers[from] {
				if r < i {
					first = max(first, behind[r])
				}
			}
		}
		for _, b := range u.in {
			if w := writer[b]; w >= 0 && floats[w] && first == start && len(readers[b]) == 1 {
				first = behind[w] // nothing says when else
			}
		}
		behind[i], ready[i] = first, first
		for _, b := range u.in {
			if w := writer[b]; w >= 0 && floats[w] {
				if len(readers[b]) > 1 {
					first = min(behind[w], first)
				}
				behind[w] = first
			}
		}
	}
	late := make([]bool, len(x.units))
	for i := range x.units {
		u := &x.units[i]
		if !x.ends(u, readers) {
			continue
		}
		for _, from := range x.givenTo(u, donate) {
			for _, r := range readers[from] {
				if r > i {
					behind[i], late[i] = max(behind[i], behind[r]), true
				}
			}
		}
	}
	order := make([]int, len(x.units))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) int {
		if late[i] {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(behind[a], behind[b]), cmp.Compare(rank(a), rank(b)))
	})
	units := make([]unit, len(x.units))
	for k, i := range order {
		units[k] = x.units[i]
	}
	x.units = units
}

// together places what ranks do together, and returns behind which unit the results of each
// unit may be read.
func (x *Executable) together(at map[graph.Value]int, readers [][]int, writer, behind []int) (ready []int) {
	var all []int
	for i := range x.units {
		u := &x.units[i]
		if u.task.together() == nil || x.ends(u, readers) {
			continue
		}
		if t := u.task.together().Attr.(*graph.Together); t.Pass == 0 {
			behind[i] = start
			for _, v := range u.task.Inputs {
				behind[i] = max(behind[i], due(v, at, writer, behind))
			}
		}
		all = append(all, i)
	}
	ready = slices.Clone(behind)
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(behind[a], behind[b]) })
	for k, i := range all[:max(len(all)-1, 0)] {
		ready[i] = behind[all[k+1]]
	}
	return ready
}

// ends reports whether all that a unit writes are results that no unit reads.
func (x *Executable) ends(u *unit, readers [][]int) bool {
	return !slices.ContainsFunc(u.out, func(b int) bool { return x.buffers[b].out < 0 || len(readers[b]) > 0 })
}

// floats reports whether a unit that can run from the start is made for what runs early: it
// makes what one such unit alone reads, or a single element.
func (x *Executable) floats(u *unit, readers [][]int, writer []int, floats []bool) bool {
	if u.task.together() != nil || len(u.out) != 1 || x.buffers[u.out[0]].out >= 0 ||
		slices.ContainsFunc(u.in, func(b int) bool { return writer[b] >= 0 && floats[writer[b]] }) {
		return false
	}
	list := readers[u.out[0]]
	return (len(list) == 1 || x.buffers[u.out[0]].value.Shape().Size() == 1) &&
		slices.ContainsFunc(list, func(r int) bool { return x.early(&x.units[r], readers, writer) })
}

// barred are the buffers that a barrier has others wait for.
func (x *Executable) barred(at map[graph.Value]int) map[int]bool {
	barred := map[int]bool{}
	for _, n := range x.graph.Nodes() {
		if n.Op == graph.SchedulingBarrier {
			for _, v := range n.Inputs {
				barred[at[v]] = true
			}
		}
	}
	return barred
}

// early reports whether a unit takes no memory for longer if it runs earlier: all that it
// writes are results, or lies where something was that only it reads.
func (x *Executable) early(u *unit, readers [][]int, writer []int) bool {
	if u.task.together() != nil {
		return x.ends(u, readers)
	}
	for j, b := range u.out {
		if x.buffers[b].out >= 0 {
			continue
		}
		if len(u.out) > 1 || !slices.ContainsFunc(u.in, func(from int) bool {
			f := &x.buffers[from]
			return writer[from] >= 0 && f.out < 0 && len(readers[from]) == 1 &&
				alignedBytes(f.value.Shape()) == alignedBytes(x.buffers[b].value.Shape()) && u.mayOverwrite(j, from)
		}) {
			return false
		}
	}
	return true
}

// givenTo are the donated parameters in whose memory a result of the unit may lie.
func (x *Executable) givenTo(u *unit, donate []bool) (list []int) {
	for j, b := range u.out {
		out := &x.buffers[b]
		if out.out < 0 || donate == nil {
			continue
		}
		for _, from := range u.in {
			p := x.buffers[from].param
			if p >= 0 && donate[p] && alignedBytes(x.buffers[from].value.Shape()) == alignedBytes(out.value.Shape()) && u.mayOverwrite(j, from) {
				list = append(list, from)
			}
		}
	}
	return list
}

// start is in the place of a unit behind which something may be read that is there from the
// start.
const start = -1

// due is the unit behind which a value may be read. Those of what units write are ready.
func due(v graph.Value, at map[graph.Value]int, writer, ready []int) int {
	if n := v.Node(); n.Op == graph.SchedulingBarrier {
		last := start
		for _, in := range n.Inputs {
			last = max(last, due(in, at, writer, ready))
		}
		return last
	} else if n.Op.Class() == graph.View && n.Op != graph.Identity {
		return due(n.Inputs[v.Index()], at, writer, ready)
	}
	if w := writer[at[v]]; w >= 0 {
		return ready[w]
	}
	return start
}
