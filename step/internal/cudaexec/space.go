package cudaexec

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// kind is how kernels go over elements.
type kind uint8

const (
	alone   kind = iota // an operation with kernels of its own
	loop                // all threads over n elements
	rows                // a row of elements after the other, with reductions of rows
	columns             // rows of elements, with reductions of columns alone
)

// space is what a kernel goes over.
type space struct {
	kind          kind
	n             int // elements of a loop
	rows, columns int
}

// spaceOf is what the kernel goes over that makes one value.
func spaceOf(v graph.Value) space {
	n := v.Node()
	if inlines(n) {
		return space{kind: loop, n: v.Shape().Size()}
	}
	if r, c, ok := innerReduction(n); ok {
		return space{kind: rows, rows: r, columns: c}
	}
	if r, c, ok := outerReduction(n); ok {
		return space{kind: columns, rows: r, columns: c}
	}
	return space{}
}

// together is what a kernel goes over that makes the values of two.
func together(a, b space) (space, bool) {
	if a.kind == loop {
		a, b = b, a
	}
	switch {
	case a.kind == loop && b.kind == loop && a.n == b.n:
	case a.kind == columns && a == b:
	case a.kind == rows && b.kind == rows && a.rows == b.rows && a.columns == b.columns:
	case a.kind == rows && b.kind == loop && (b.n == a.rows*a.columns || b.n == a.rows && a.rows > 1):
	default:
		return space{}, false
	}
	return a, true
}

// innerReduction is how a reduction goes over rows, if it does: the reduced axes are the
// last ones.
func innerReduction(n *graph.Node) (rows, columns int, ok bool) {
	if n.Op < graph.ReduceSum || n.Op > graph.ReduceXor {
		return 0, 0, false
	}
	dims := n.Inputs[0].Shape().Dims
	axes := n.Attr.(graph.Axes)
	first := axes[0]
	for i := first; i < len(dims); i++ {
		if dims[i] != 1 && !slices.Contains(axes, i) {
			return 0, 0, false
		}
	}
	rows = 1
	for i, d := range dims[:first] {
		if !slices.Contains(axes, i) {
			rows *= d
		}
	}
	columns = size(dims[first:])
	if columns < 2 || rows < 1 {
		return 0, 0, false
	}
	return rows, columns, rows >= 64 || columns <= 4096
}

// outerReduction is how a reduction goes over columns, if it does: the reduced axes are
// the first ones.
func outerReduction(n *graph.Node) (rows, columns int, ok bool) {
	if n.Op < graph.ReduceSum || n.Op > graph.ReduceXor {
		return 0, 0, false
	}
	dims := n.Inputs[0].Shape().Dims
	axes := n.Attr.(graph.Axes)
	rows, columns = 1, 1
	for i, d := range dims {
		switch {
		case !slices.Contains(axes, i):
			columns *= d
		case d != 1 && columns > 1:
			return 0, 0, false
		default:
			rows *= d
		}
	}
	return rows, columns, rows > 1 && columns > 1
}
