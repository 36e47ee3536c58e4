package access

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// Kind is how kernels go over elements.
type Kind uint8

const (
	Alone   Kind = iota // an operation with kernels of its own
	Loop                // all threads over n elements
	Rows                // a row of elements after the other, with reductions of rows
	Columns             // rows of elements, with reductions of columns alone
	Vectors             // products of matrices and vectors, of n results
)

// Space is what a kernel goes over.
type Space struct {
	Kind          Kind
	N             int // elements of a loop, or results
	Rows, Columns int
}

// SpaceOf is what the kernel goes over that makes one value.
func SpaceOf(v graph.Value) Space {
	n := v.Node()
	if Inlines(n) {
		return Space{Kind: Loop, N: v.Shape().Size()}
	}
	if r, c, ok := innerReduction(n); ok {
		return Space{Kind: Rows, Rows: r, Columns: c}
	}
	if r, c, ok := outerReduction(n); ok {
		return Space{Kind: Columns, Rows: r, Columns: c}
	}
	return Space{}
}

// Together is what a kernel goes over that makes the values of two.
func Together(a, b Space) (Space, bool) {
	if a.Kind == Loop {
		a, b = b, a
	}
	switch {
	case a.Kind == Loop && b.Kind == Loop && a.N == b.N:
	case a.Kind == Columns && a == b:
	case a.Kind == Rows && b.Kind == Rows && a.Rows == b.Rows && a.Columns == b.Columns:
	case a.Kind == Rows && b.Kind == Loop && (b.N == a.Rows*a.Columns || b.N == a.Rows && a.Rows > 1):
	default:
		return Space{}, false
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
	rows, columns = 1, 1
	for i, d := range dims[:first] {
		if !slices.Contains(axes, i) {
			rows *= d
		}
	}
	for _, d := range dims[first:] {
		columns *= d
	}
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
