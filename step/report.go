package step

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/internal/units"
)

// String lists the operations of a task: "Exp+Mul".
func (t *Task) String() string {
	var names []string
	for _, n := range t.Nodes {
		names = append(names, n.Op.String())
	}
	return strings.Join(names, "+")
}

// String says what the executable does: how many tasks the operations became, what the
// memory is for, how the step fits its budget, and which operations run again or have
// results that travel.
func (x *Executable) String() string {
	var b strings.Builder
	operations := 0
	for _, n := range x.graph.Nodes() {
		if n.Op.Class() != graph.Source && n.Op.Class() != graph.View {
			operations++
		}
	}
	fmt.Fprintf(&b, "step %q: %s in %s\n", x.graph.Name(), units.Count(operations, "operation"), units.Count(len(x.units), "task"))
	var params, constants, results, shared int64
	for i := range x.buffers {
		buf := &x.buffers[i]
		n := alignedBytes(buf.value.Shape())
		switch {
		case buf.param >= 0:
			params += n
		case buf.value.Node().Op == graph.Constant:
			constants += n
		case buf.out >= 0:
			if _, ok := x.inPlace[buf.out]; ok {
				shared += n
			} else {
				results += n
			}
		}
	}
	fmt.Fprintf(&b, "%s of parameters, in which lie %s of results; %s of other results, %s of constants, %s of values between\n",
		units.Bytes(params), units.Bytes(shared), units.Bytes(results), units.Bytes(constants), units.Bytes(x.plan.Bytes-x.plan.Resident))
	b.WriteString(x.plan.String())
	again, sent := map[string]int{}, map[string]int{}
	for _, r := range x.plan.Runs {
		if r.Again {
			again[x.unit(r.Op).task.String()]++
		}
	}
	for _, l := range x.plan.Lives {
		if l.Sent {
			sent[x.buffers[l.Value].value.Node().Op.String()]++
		}
	}
	for _, list := range []struct {
		title string
		of    map[string]int
	}{{"again", again}, {"sent", sent}} {
		if len(list.of) > 0 {
			fmt.Fprintf(&b, "%s: %s\n", list.title, counted(list.of))
		}
	}
	return b.String()
}

// counted lists names with how often each comes, the most frequent first.
func counted(of map[string]int) string {
	var names []string
	for name := range of {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%d x %s", of[name], name)
	}
	return strings.Join(names, ", ")
}
