package spmd

import (
	"slices"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
)

// layout is how a value lies over the ranks: split along an axis, whole, or partial.
type layout int

const (
	whole   layout = Whole // each rank has all of it
	partial layout = -2    // each rank has a summand: the value is the sum over ranks
)

func (l layout) split() bool { return l >= 0 }

// local is the shape of what a rank has of a value.
func local(s graph.Shape, l layout, ranks int) graph.Shape {
	if !l.split() {
		return s
	}
	dims := slices.Clone(s.Dims)
	dims[l] /= ranks
	return graph.Shape{Type: s.Type, Dims: dims}
}

// summable reports whether ranks can add up numbers of a type.
func summable(t dtype.DType) bool { return t != dtype.Bool && (t.Size() != 2 || t.IsFloat()) }

// form is a value as it is in the graph of a rank, in one layout.
type form struct {
	layout layout
	value  graph.Value
}

// forms are the ways in which a value is there, in the order in which they were made. The
// first is how its operation made it; others are conversions of that.
type forms []form

func (f forms) as(l layout) (graph.Value, bool) {
	i := slices.IndexFunc(f, func(o form) bool { return o.layout == l })
	if i < 0 {
		return graph.Value{}, false
	}
	return f[i].value, true
}

// layout is the one in which to read a value where any will do. A sum that was made over
// ranks once is a summand no longer.
func (f forms) layout() layout {
	switch _, there := f.as(whole); {
	case f[0].layout != partial:
		return f[0].layout
	case there:
		return whole
	case len(f) > 1:
		return f[1].layout
	}
	return partial
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}
