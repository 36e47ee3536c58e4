package step

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/step/internal/mincut"
)

// Autocast returns a copy of a graph that computes partly in 16 bits: t is [dtype.BF16]
// or [dtype.F16]. Parameters and outputs keep their types, so that weights and the state
// of an optimizer stay float32. Operations of float32 become these:
//
//   - Products, convolutions and attention take operands of type t and add up in
//     float32. The result is of type t, but float32 where no other product depends on it:
//     gradients of weights, and what a forward pass ends with, are not rounded. That of
//     convolutions and attention always is.
//   - Reductions, exponentials, logarithms, powers, roots, divisions, sines, scatters and
//     random numbers stay float32. So do operations that combine what was reduced with
//     what was not, as normalisations, softmax and losses do, and those that read a
//     constant which t has not: beyond its range, or too small.
//   - Other element-wise operations, pooling by maximum, and what moves elements are of
//     either type. They are divided so that casts take the fewest bytes, and are float32
//     where that makes no difference.
//
// A value is cast once, however many read it: weights, too, once a step. The result does
// not change if it is passed through Autocast again. The policy is that of PyTorch's
// autocast, but for element-wise operations, which follow their operands there.
//
// Numbers of type [dtype.F16] end at 65504, and below 6e-8: losses have to be scaled. It
// fails with [ErrArgument] for other types.
func Autocast(g *Graph, t dtype.DType) (*Graph, error) {
	if t != dtype.BF16 && t != dtype.F16 {
		return nil, fmt.Errorf("step: Autocast of graph %q: %w: to %v, and not to bf16 or f16", g.name, ErrArgument, t)
	}
	c := &caster{g: g, t: t, live: reached(g), low: map[Value]bool{}, form: [2]map[Value]Value{{}, {}}}
	c.decide()
	return c.rewrite(), nil
}

// caster divides the float32 values of a graph: each is made in float32, or low, in 16
// bits.
type caster struct {
	g    *Graph
	t    dtype.DType
	live map[*Node]bool
	low  map[Value]bool

	out  *Graph
	form [2]map[Value]Value // in the copy: as float32 or what else it was, and low
}

// place is where something is computed.
type place uint8

const (
	inEither place = iota
	inFloat32
	in16Bits
	asItIs // an operand that is read as whatever it was made
)

// flexible are operations of either type.
func flexible(op Op) bool {
	switch op {
	case Abs, Neg, Sign, Erf, Tanh, Logistic, Floor, Ceil, Round, Add, Sub, Mul, Max, Min, Where,
		Transpose, BroadcastInDim, Reverse, Slice, Pad, Concatenate, DynamicSlice, DynamicUpdateSlice, Gather,
		Identity, Reshape, SelectAndScatterMax, SelectAndScatterMin:
		return true
	}
	return op.Comparison()
}

// multiplies reports whether an operation is made of products.
func multiplies(op Op) bool {
	return op.Class() == Contraction || op == Attention || op == AttentionBackward
}

// reads says where an operand is wanted. inEither: where the node's result is made, or,
// for a comparison, wherever that is cheapest.
func (c *caster) reads(n *Node, operand int) (p place, result int) {
	switch {
	case n.Op == AttentionBackward && operand == 4: // the sums
		return inFloat32, 0
	case multiplies(n.Op):
		return in16Bits, 0
	case n.Op == OptimizationBarrier:
		return inEither, operand
	case n.Op == SchedulingBarrier && operand > 0, n.Op == IsFinite, n.Op == IsNaN:
		return asItIs, 0
	case n.Op == Convert && n.Shapes[0].Type == c.t:
		return in16Bits, 0
	case n.Op == Convert:
		return asItIs, 0
	case n.Op == SchedulingBarrier, flexible(n.Op):
		return inEither, 0
	case n.Op == ReduceWindow:
		if r := n.Attr.(*Windows).Reduction; r == ReduceMax || r == ReduceMin {
			return inEither, 0
		}
	}
	return inFloat32, 0
}

// decide finds what is low: the division with the fewest bytes of casts is a minimum cut.
func (c *caster) decide() {
	var nodes []*Node
	for _, n := range c.g.nodes {
		if c.live[n] {
			nodes = append(nodes, n)
		}
	}
	places := c.places(nodes)
	cut := mincut.New(0)
	at := map[Value]int{} // float32 results, and comparisons
	for _, n := range nodes {
		for i := range n.Shapes {
			v := n.Value(i)
			p, ok := places[v]
			if !ok {
				continue
			}
			at[v] = cut.Node()
			switch p {
			case in16Bits:
				cut.Add(mincut.Source, at[v], mincut.Always)
			case inFloat32:
				cut.Add(at[v], mincut.Sink, mincut.Always)
			}
		}
	}
	readers := map[Value][]int{} // where a value is wanted, as nodes of the cut
	others := map[Value]int{}    // how many operations read it that need not be low
	ends := map[Value][]*Node{}  // the operations that read it
	want := func(v Value, where int, mustBeLow bool) {
		readers[v] = append(readers[v], where)
		if !mustBeLow {
			others[v]++
		}
	}
	for _, n := range nodes {
		for j, v := range n.Inputs {
			if v.Shape().Type != dtype.F32 {
				continue
			}
			if k := len(ends[v]); k == 0 || ends[v][k-1] != n {
				ends[v] = append(ends[v], n)
			}
			switch p, i := c.reads(n, j); p {
			case in16Bits:
				want(v, mincut.Source, true)
			case inFloat32:
				want(v, mincut.Sink, false)
			case inEither:
				want(v, at[n.Value(i)], places[n.Value(i)] == in16Bits)
			}
		}
	}
	for _, v := range c.g.outputs {
		if v.Shape().Type == dtype.F32 {
			want(v, mincut.Sink, false)
		}
	}
	for _, n := range nodes {
		if n.Op == Constant {
			continue // is there in both
		}
		for i, s := range n.Shapes {
			v := n.Value(i)
			if s.Type != dtype.F32 {
				continue
			}
			net(cut, at[v], readers[v], castBytes(v, len(ends[v]) > 1 && others[v] > 0))
			if n.Op == Convert && n.Inputs[0].Shape().Type == c.t {
				cut.Add(mincut.Source, at[v], castBytes(v, false)) // it is low already
			}
		}
		if n.Op.Class() == Window && n.Inputs[0].Shape().Type == dtype.F32 {
			cut.Add(mincut.Source, at[n.Inputs[0]], castBytes(n.Inputs[0], false)) // pooling reads memory
		}
	}
	side := cut.Cut()
	for v, i := range at {
		c.low[v] = side[i]
	}
}

// net adds what it costs if a value is made at one place and read at the other: one cast.
func net(cut *mincut.Graph, from int, readers []int, cost int64) {
	down, up := cut.Node(), cut.Node()
	cut.Add(down, from, cost)
	cut.Add(from, up, cost)
	for _, r := range readers {
		if r != mincut.Sink {
			cut.Add(r, down, mincut.Always)
		}
		if r != mincut.Source {
			cut.Add(up, r, mincut.Always)
		}
	}
}

// castBytes is what a cast of a value costs: writing it, and the value itself, too, if it
// is kept in both forms. The cast of what is broadcast is one of the operand.
func castBytes(v Value, both bool) int64 {
	for v.node.Op == BroadcastInDim {
		v = v.node.Inputs[0]
	}
	switch {
	case v.node.Op == Constant:
		return 0
	case both:
		return 3 * int64(v.Shape().Size())
	}
	return 2 * int64(v.Shape().Size())
}

// multiplied are the operations that a product depends on.
func multiplied(nodes []*Node) map[*Node]bool {
	found := map[*Node]bool{}
	for i := len(nodes) - 1; i >= 0; i-- {
		if n := nodes[i]; found[n] || multiplies(n.Op) {
			for _, v := range n.Inputs {
				found[v.node] = true
			}
		}
	}
	return found
}

// places says for each float32 result, and each comparison of such, where it is made.
func (c *caster) places(nodes []*Node) map[Value]place {
	found := map[Value]place{}
	needed := multiplied(nodes)
	reduced := map[Value]bool{} // comes of reductions alone
	unfit := map[Value]bool{}   // a constant, repeated or not, that 16 bits have not
	for _, n := range nodes {
		for i, s := range n.Shapes {
			v := n.Value(i)
			some, all, bad := false, true, false
			for j, x := range n.Inputs {
				if !isFloat(x.Shape().Type) || n.Op == OptimizationBarrier && j != i || n.Op == SchedulingBarrier && j > 0 {
					continue
				}
				bad = bad || unfit[x]
				if !constant(x) {
					some, all = some || reduced[x], all && reduced[x]
				}
			}
			reduced[v] = n.Op.Class() == Reduction || some && all
			unfit[v] = n.Op == Constant && s.Type == dtype.F32 && !c.fits(n.Attr.(Data)) || bad && constant(v)
			if s.Type != dtype.F32 && !(n.Op.Comparison() && n.Inputs[0].Shape().Type == dtype.F32) {
				continue
			}
			found[v] = c.makes(n, i, needed[n])
			if found[v] == inEither && (bad || some && !all && n.Op.Class() == Elementwise) {
				found[v] = inFloat32
			}
		}
	}
	return found
}

// makes says where a result is made, by the operation alone. needed: a product depends on
// it.
func (c *caster) makes(n *Node, result int, needed bool) place {
	switch {
	case n.Op == Constant:
		return inEither
	case n.Op == Attention && result == 1: // the sums
	case multiplies(n.Op):
		if from := n.Inputs[0].Shape().Type; from != dtype.F32 && from != c.t || n.Op == DotGeneral && !needed {
			return inFloat32
		}
		return in16Bits
	case n.Op == Convert:
		if from := n.Inputs[0].Shape().Type; from == c.t || from == dtype.Bool {
			return inEither
		}
	case len(n.Inputs) > 0:
		if p, _ := c.reads(n, result); p == inEither {
			return inEither
		}
	}
	return inFloat32
}

// constant reports whether a value is a constant, repeated or not.
func constant(v Value) bool {
	for v.node.Op == BroadcastInDim || v.node.Op == Reshape {
		v = v.node.Inputs[0]
	}
	return v.node.Op == Constant
}

// fits reports whether numbers are as good in 16 bits as any: none is too large or too
// small.
func (c *caster) fits(data Data) bool {
	smallest := float32(0x1p-14)
	if c.t == dtype.BF16 {
		smallest = 0x1p-126
	}
	for i := 0; i+4 <= len(data); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(data[i:]))
		size := float32(math.Abs(float64(x)))
		if size != 0 && size < smallest {
			return false
		}
		if narrow, inf := widen(c.narrow(x), c.t), math.IsInf(float64(x), 0); math.IsInf(float64(narrow), 0) && !inf {
			return false
		}
	}
	return true
}

func (c *caster) narrow(x float32) uint16 {
	if c.t == dtype.BF16 {
		return float16.ToBF16(x)
	}
	return float16.ToF16(x)
}

func widen(h uint16, t dtype.DType) float32 {
	if t == dtype.BF16 {
		return float16.FromBF16(h)
	}
	return float16.FromF16(h)
}

// rewrite makes the copy.
func (c *caster) rewrite() *Graph {
	c.out = NewGraph(c.g.name)
	for _, n := range c.g.nodes {
		if !c.live[n] {
			continue
		}
		in := make([]Value, len(n.Inputs))
		for j, v := range n.Inputs {
			p, i := c.reads(n, j)
			lower := p == in16Bits || p == inEither && c.low[n.Value(i)] || p == asItIs && c.low[v]
			in[j] = c.as(v, lower)
		}
		shapes := make([]Shape, len(n.Shapes))
		for i, s := range n.Shapes {
			if shapes[i] = s; s.Type == dtype.F32 && c.low[n.Value(i)] {
				shapes[i] = s.With(c.t)
			}
		}
		if n.Op == Convert && in[0].Shape().Equal(shapes[0]) {
			c.set(n.Value(0), in[0])
			continue
		}
		attr := n.Attr
		if a, ok := attr.(*DotAxes); ok && n.Shapes[0].Type == dtype.F32 {
			b := *a
			b.Result = shapes[0].Type
			attr = &b
		}
		m := c.out.addNode(n.Op, attr, shapes, in)
		if n.Op == Parameter {
			c.out.params = append(c.out.params, m.Value(0))
		}
		for i := range n.Shapes {
			c.set(n.Value(i), m.Value(i))
		}
	}
	for _, v := range c.g.outputs {
		c.out.outputs = append(c.out.outputs, c.as(v, false))
	}
	swept, _ := c.out.Part(c.out.params, c.out.outputs) // cannot fail: all parameters are there
	return swept
}

func (c *caster) set(v, now Value) {
	i := 0
	if v.Shape().Type == dtype.F32 && c.low[v] {
		i = 1
	}
	c.form[i][v] = now
}

// as is a value in the copy, in 16 bits if lower is true and it was float32.
func (c *caster) as(v Value, lower bool) Value {
	i, t := 0, v.Shape().Type
	if t == dtype.F32 && lower {
		i, t = 1, c.t
	}
	if now, ok := c.form[i][v]; ok {
		return now
	}
	n := v.node
	var now Value
	switch data, ok := n.Attr.(Data); {
	case ok:
		var narrow Data
		for k := 0; k+4 <= len(data); k += 4 {
			narrow = binary.LittleEndian.AppendUint16(narrow, c.narrow(math.Float32frombits(binary.LittleEndian.Uint32(data[k:]))))
		}
		now = c.out.add(Constant, narrow, v.Shape().With(t))
	case n.Op == BroadcastInDim:
		now = c.out.add(BroadcastInDim, n.Attr, v.Shape().With(t), c.as(n.Inputs[0], lower))
	default:
		now = c.out.add(Convert, nil, v.Shape().With(t), c.form[1-i][v])
	}
	c.form[i][v] = now
	return now
}
