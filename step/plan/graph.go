package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// ErrArgument says that a graph or an option cannot be right.
var ErrArgument = errs.ErrArgument

// Graph is what a step does: operations in the order in which they run, and the
// values that they read and write, each named by its index.
type Graph struct {
	Ops    []Op
	Values []Value

	// Again are other ways to write values again that Ops write. Plans use them where
	// that is faster; without a budget, none is used.
	Again []Again
}

// Again is an operation that writes, with the same bits, values that operations of the
// graph wrote before, but that are not there any more. It runs where all that it reads
// is there: such as a normalised row of the row and the mean that the operation wrote,
// too, which made it of a sum.
type Again struct {
	Op

	// For is -1 for an operation that runs by itself. Else it runs in place of that
	// operation of the graph, at its first time, and reads and writes all that this does,
	// with no less scratch memory: what both read is read once.
	For int
}

// op is what a run runs: operations of the graph, and other ways behind them.
func (g *Graph) op(i int) *Op {
	if i < len(g.Ops) {
		return &g.Ops[i]
	}
	return &g.Again[i-len(g.Ops)].Op
}

// ops is how many there are of them.
func (g *Graph) ops() int { return len(g.Ops) + len(g.Again) }

// Op is an operation.
type Op struct {
	Name    string
	Seconds float64 // how long it takes

	// Beside is how many seconds it goes on beside the operations that follow, after
	// Seconds, such as a sum with other devices. What goes on so goes on one after the
	// other. Operations that read what it writes wait for it, and so does the end of the
	// step; those that go on in the same way do not. Plans give the memory that it reads and
	// writes to nobody else before what it writes is read, or the next of its name goes on so;
	// where a budget leaves no room for that, at once. Whoever runs the plan has to wait where
	// memory is taken, or a value in it is written over (Value.Over).
	Beside float64

	Reads   []int // values, which are there before
	Writes  []int // values, each written by one operation only
	Scratch int64 // bytes that it needs while it runs

	// Once says that it must not run again: it has an effect besides what it
	// writes. All others give the same bits each time.
	Once bool
}

// Value is memory that operations read and write.
type Value struct {
	Name  string
	Bytes int64

	// Resident values stay on the device throughout: weights, what an optimizer
	// keeps. Nothing is planned for them but their bytes. Other values that no
	// operation writes are there from the start until they were read last.
	Resident bool

	// Output values stay when the step is over.
	Output bool

	// Over lists values in whose memory this one may be written, because the
	// operation that writes it reads each of them and then, at the same place,
	// writes this one: element by element, or a sum into one of its terms. Those
	// are ignored that have another number of bytes or are outputs. The plan takes
	// one that is wanted no longer. Other ways to write it (Graph.Again) may do so,
	// too, if they read that value. A resident value that stands here is given
	// away: if no later operation reads it, this value is written over it, as new
	// weights over the old ones.
	Over []int
}

// mostBytes is the most that sizes are added up to, far from an overflow.
const mostBytes = math.MaxInt64 / 8

// check fails with ErrArgument if the graph is not what Graph says, and returns
// which operation writes each value; -1: none.
func (g *Graph) check() ([]int, error) {
	if len(g.Ops) == 0 {
		return nil, fmt.Errorf("plan: %w: a graph without operations", ErrArgument)
	}
	writer := make([]int, len(g.Values))
	left := int64(mostBytes)
	for v := range writer {
		writer[v] = -1
		if n := g.Values[v].Bytes; n < 0 || n > left {
			return nil, fmt.Errorf("plan: %w: value %d (%s) has %d bytes; all together may have %d", ErrArgument, v, g.Values[v].Name, n, int64(mostBytes))
		}
		left -= g.Values[v].Bytes
	}
	for i, op := range g.Ops {
		if !finite(op.Seconds) || !finite(op.Beside) || op.Scratch < 0 || op.Scratch > mostBytes {
			return nil, fmt.Errorf("plan: %w: operation %d (%s) takes %v s, %v s beside others, and %d bytes of scratch memory", ErrArgument, i, op.Name, op.Seconds, op.Beside, op.Scratch)
		}
		if op.Beside > 0 && !op.Once {
			return nil, fmt.Errorf("plan: %w: operation %d (%s) goes on for %v s beside others, and may run again", ErrArgument, i, op.Name, op.Beside)
		}
		for _, v := range op.Writes {
			switch {
			case v < 0 || v >= len(g.Values):
				return nil, fmt.Errorf("plan: %w: operation %d (%s) writes value %d of %d", ErrArgument, i, op.Name, v, len(g.Values))
			case writer[v] >= 0:
				return nil, fmt.Errorf("plan: %w: operations %d (%s) and %d (%s) both write value %d (%s)", ErrArgument, writer[v], g.Ops[writer[v]].Name, i, op.Name, v, g.Values[v].Name)
			}
			writer[v] = i
		}
	}
	for i, op := range g.Ops {
		for _, v := range op.Reads {
			switch {
			case v < 0 || v >= len(g.Values):
				return nil, fmt.Errorf("plan: %w: operation %d (%s) reads value %d of %d", ErrArgument, i, op.Name, v, len(g.Values))
			case writer[v] >= i:
				return nil, fmt.Errorf("plan: %w: operation %d (%s) reads value %d (%s), which operation %d writes", ErrArgument, i, op.Name, v, g.Values[v].Name, writer[v])
			}
		}
	}
	for i, a := range g.Again {
		if !(a.Seconds >= 0) || math.IsInf(a.Seconds, 1) || a.Scratch < 0 || a.Scratch > mostBytes || a.Once || a.For < -1 || a.For >= len(g.Ops) {
			return nil, fmt.Errorf("plan: %w: operation %d to run again (%s) takes %v s and %d bytes of scratch memory, in place of operation %d", ErrArgument, i, a.Name, a.Seconds, a.Scratch, a.For)
		}
		for _, v := range slices.Concat(a.Reads, a.Writes) {
			if v < 0 || v >= len(g.Values) {
				return nil, fmt.Errorf("plan: %w: operation %d to run again (%s) reads or writes value %d of %d", ErrArgument, i, a.Name, v, len(g.Values))
			}
		}
		for _, v := range a.Writes {
			if writer[v] < 0 || a.For >= 0 && writer[v] > a.For || slices.Contains(a.Reads, v) {
				return nil, fmt.Errorf("plan: %w: operation %d to run again (%s) writes value %d (%s), which is not written before", ErrArgument, i, a.Name, v, g.Values[v].Name)
			}
		}
		if a.For < 0 {
			continue
		}
		if op := g.Ops[a.For]; a.Scratch < op.Scratch {
			return nil, fmt.Errorf("plan: %w: operation %d to run again (%s) has %d bytes of scratch memory, and is in place of operation %d (%s), which needs %d", ErrArgument, i, a.Name, a.Scratch, a.For, op.Name, op.Scratch)
		}
		for _, list := range [][2][]int{{g.Ops[a.For].Reads, a.Reads}, {g.Ops[a.For].Writes, a.Writes}} {
			for _, v := range list[0] {
				if !slices.Contains(list[1], v) {
					return nil, fmt.Errorf("plan: %w: operation %d to run again (%s) is in place of operation %d (%s), but does nothing with value %d (%s)", ErrArgument, i, a.Name, a.For, g.Ops[a.For].Name, v, g.Values[v].Name)
				}
			}
		}
	}
	for v, value := range g.Values {
		for _, u := range value.Over {
			if w := writer[v]; w < 0 || !slices.Contains(g.Ops[w].Reads, u) {
				return nil, fmt.Errorf("plan: %w: value %d (%s) may be written over value %d, which no operation reads that writes it", ErrArgument, v, value.Name, u)
			}
		}
	}
	return writer, nil
}
