// Package access says where kernels find the values that they compute with, and what
// they go over: which values are views of others in memory, which are computed wherever
// they are wanted, and how the elements of a result lie in rows and columns.
package access

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/cudac"
)

// Views knows which values are only views of others: of the same memory. Given is where
// to stop: what is handed over by itself.
type Views struct {
	Given map[graph.Value]bool
}

// OperandOf is the operand that a view looks at.
func OperandOf(v graph.Value) int {
	if v.Node().Op == graph.OptimizationBarrier {
		return v.Index()
	}
	return 0
}

// IsView reports whether a value is its operand's memory.
func IsView(v graph.Value) bool {
	n := v.Node()
	return n.Op.Class() == graph.View && n.Op != graph.Identity
}

// Same reports whether a reduction is over axes of one element: its result is its operand.
func Same(n *graph.Node) bool {
	return n.Op >= graph.ReduceSum && n.Op <= graph.ReduceXor && n.Shapes[0].Size() > 0 && n.Inputs[0].Shape().Size() == n.Shapes[0].Size()
}

// Base is the value whose memory a value is: what its views look at.
func (s *Views) Base(v graph.Value) graph.Value {
	for !s.Given[v] && IsView(v) {
		v = v.Node().Inputs[OperandOf(v)]
	}
	return v
}

// Literal is a value all of whose elements are the same constant.
func (s *Views) Literal(v graph.Value) (string, bool) {
	b := v
	for IsView(b) {
		b = b.Node().Inputs[OperandOf(b)]
	}
	n, t := b.Node(), v.Shape().Type
	if n.Op != graph.Constant || n.Shapes[0].Type.Size() != t.Size() {
		return "", false
	}
	data, width := n.Attr.(graph.Data), t.Size()
	if len(data) == 0 {
		return "", false
	}
	for i := width; i < len(data); i++ {
		if data[i] != data[i-width] {
			return "", false
		}
	}
	return cudac.Literal(t, data), true
}

// Factor is an operand of a product: a value in memory, whose axes are taken in another
// order.
func (s *Views) Factor(v graph.Value) (graph.Value, []int) {
	axes := make([]int, v.Shape().Rank())
	for i := range axes {
		axes[i] = i
	}
	for !s.Given[v] {
		n := v.Node()
		switch n.Op {
		case graph.Transpose:
			p := n.Attr.(graph.Axes)
			for i, a := range axes {
				axes[i] = p[a]
			}
		case graph.Identity, graph.OptimizationBarrier, graph.SchedulingBarrier:
		default:
			return v, axes
		}
		v = n.Inputs[OperandOf(v)]
	}
	return v, axes
}

// Filter is the kernel of a convolution: a value in memory, which is reversed along some
// axes.
func (s *Views) Filter(n *graph.Node) (graph.Value, []bool) {
	v, spatial := n.Inputs[1], n.Attr.(*graph.ConvAxes).KernelSpatial
	reversed := make([]bool, v.Shape().Rank())
	for !s.Given[v] {
		x := v.Node()
		switch x.Op {
		case graph.Reverse:
			axes := x.Attr.(graph.Axes)
			if slices.ContainsFunc(axes, func(i int) bool { return !slices.Contains(spatial, i) }) {
				return v, reversed
			}
			for _, i := range axes {
				reversed[i] = !reversed[i]
			}
		case graph.Identity, graph.OptimizationBarrier, graph.SchedulingBarrier:
		default:
			return v, reversed
		}
		v = x.Inputs[OperandOf(v)]
	}
	return v, reversed
}

// Operand is what a node reads: of products and convolutions, what is behind the
// operations that they take upon themselves.
func (s *Views) Operand(n *graph.Node, j int) graph.Value {
	v := n.Inputs[j]
	switch {
	case n.Op == graph.DotGeneral:
		v, _ = s.Factor(v)
	case n.Op == graph.ConvGeneral && j == 1:
		v, _ = s.Filter(n)
	}
	return v
}

// Wants is which operands of a node have to lie in memory.
func Wants(n *graph.Node) []int {
	switch n.Op {
	case graph.Concatenate:
		if !Inlines(n) {
			return every(n)
		}
	case graph.ConvGeneral, graph.SelectAndScatterMax, graph.SelectAndScatterMin:
		return []int{0, 1}
	case graph.ReduceWindow:
		return []int{0}
	case graph.ScatterSum, graph.ScatterMax, graph.ScatterMin:
		return []int{1, 2}
	case graph.Attention:
		return []int{0, 1, 2}
	case graph.AttentionBackward:
		return []int{0, 1, 2, 3, 4, 5}
	case graph.AllReduce, graph.ReduceScatter, graph.AllGather:
		return every(n)
	}
	return nil
}

func every(n *graph.Node) []int {
	all := make([]int, len(n.Inputs))
	for i := range all {
		all[i] = i
	}
	return all
}

// mostJoined is how many operands of a concatenation one kernel reads.
const mostJoined = 8

// Inlines says whether a node's elements can be computed wherever they are wanted.
func Inlines(n *graph.Node) bool {
	if n.Op == graph.Identity || Same(n) {
		return true
	}
	switch n.Op.Class() {
	case graph.Elementwise, graph.Random:
		return true
	case graph.Source:
		return n.Op == graph.Iota
	case graph.Movement:
		return (n.Op != graph.Transpose || !turns(n)) && (n.Op != graph.Concatenate || len(n.Inputs) <= mostJoined)
	}
	return false
}

// turns says whether a transposition moves the last axis: elements that lie side by side
// come to lie far apart.
func turns(n *graph.Node) bool {
	dims := n.Inputs[0].Shape().Dims
	last := -1
	for i, d := range dims {
		if d > 1 {
			last = i
		}
	}
	if last < 0 || n.Inputs[0].Shape().Size() <= 1024 {
		return false
	}
	p := n.Attr.(graph.Axes)
	for i := len(p) - 1; i >= 0; i-- {
		if dims[p[i]] > 1 {
			return p[i] != last
		}
	}
	return false
}
