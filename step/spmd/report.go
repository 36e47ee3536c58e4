package spmd

import (
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/step/graph"
)

// Pass is a part of a step.
type Pass uint8

// The passes. Without [train.Step].Gradients, all that is not [Forward] is [Backward].
//
// [train.Step]: https://pkg.go.dev/github.com/pinion-gpu/pinion/step/train#Step
const (
	Forward  Pass = iota // what the loss is made of
	Backward             // what gradients are made of beside that
	Update               // the rest, which train has once for all micro-batches
)

var passNames = [...]string{Forward: "forward", Backward: "backward", Update: "update"}

// String returns the name: "forward".
func (p Pass) String() string {
	if int(p) >= len(passNames) {
		return fmt.Sprintf("pass(%d)", uint8(p))
	}
	return passNames[p]
}

// Collective is an operation that ranks do together in a step.
type Collective struct {
	// Op is [graph.AllReduce] or [graph.ReduceScatter], of a sum whose summands ranks have,
	// or [graph.AllGather], of a value that was split and is read as a whole.
	Op graph.Op

	// Of is the value of the step that was partitioned.
	Of graph.Value

	// Pass is where the result is read first.
	Pass Pass

	// Bytes are those of the operand of [graph.AllReduce] and [graph.ReduceScatter], and of
	// the result of [graph.AllGather].
	Bytes int64
}

// String says what the operation is of: "backward: AllGather of %12 = Reverse %11 … : f32[8,16], 512 B".
func (c Collective) String() string {
	return fmt.Sprintf("%v: %v of %v, %v", c.Pass, c.Op, c.Of.Node(), units.Bytes(c.Bytes))
}

// Report says what it takes to run a partitioned step. Values that are gathered show where
// annotations did not carry.
type Report struct {
	Collectives []Collective // in the order of the graph

	WholeState int64 // bytes of the state of the step
	RankState  int64 // bytes of the state of a rank
}

func (r *Report) add(n *graph.Node, of graph.Value, p Pass) {
	r.Collectives = append(r.Collectives, Collective{n.Op, of, p, max(n.Inputs[0].Shape().Bytes(), n.Shapes[0].Bytes())})
}

// Count is how many operations of a kind there are in a pass, and of how many bytes together.
func (r *Report) Count(p Pass, op graph.Op) (n int, bytes int64) {
	for _, c := range r.Collectives {
		if c.Pass == p && c.Op == op {
			n, bytes = n+1, bytes+c.Bytes
		}
	}
	return n, bytes
}

// String is a line for each kind of operation in each pass, one for the state, and one for
// each value that is gathered.
func (r *Report) String() string {
	var b strings.Builder
	for p := range Pass(len(passNames)) {
		for _, op := range []graph.Op{graph.AllReduce, graph.ReduceScatter, graph.AllGather} {
			if n, bytes := r.Count(p, op); n > 0 {
				fmt.Fprintf(&b, "%v: %d %v, %v\n", p, n, op, units.Bytes(bytes))
			}
		}
	}
	fmt.Fprintf(&b, "state of a rank: %v of %v\n", units.Bytes(r.RankState), units.Bytes(r.WholeState))
	for _, c := range r.Collectives {
		if c.Op == graph.AllGather {
			fmt.Fprintf(&b, "%v\n", c)
		}
	}
	return b.String()
}
