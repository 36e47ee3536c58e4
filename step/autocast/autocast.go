package autocast

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/internal/mincut"
)

// Graph returns a copy of a graph that computes partly in 16 bits: t is [dtype.BF16]
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
// not change if it is passed through Graph again. The policy is that of PyTorch's
// autocast, but for element-wise operations, which follow their operands there.
//
// Numbers of type [dtype.F16] end at 65504, and below 6e-8: losses have to be scaled. It
// fails with [ErrArgument] for other types.
func Graph(g *graph.Graph, t dtype.DType) (*graph.Graph, error) {
	if t != dtype.BF16 && t != dtype.F16 {
		return nil, fmt.Errorf("autocast: graph %q: %w: to %v, and not to bf16 or f16", g.Name(), step.ErrArgument, t)
	}
	g, err := g.Part(g.Parameters(), g.Outputs()) // without what nobody needs
	if err != nil {
		return nil, fmt.Errorf("autocast: %w", err)
	}
	c := &caster{g: g, t: t, low: map[graph.Value]bool{}, form: [2]map[graph.Value]graph.Value{{}, {}}}
	c.decide()
	return c.rewrite()
}

// caster divides the float32 values of a graph: each is made in float32, or low, in 16
// bits.
type caster struct {
	g   *graph.Graph
	t   dtype.DType
	low map[graph.Value]bool

	out  *graph.Graph
	form [2]map[graph.Value]graph.Value // in the copy: as float32 or what else it was, and low
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
func flexible(op graph.Op) bool {
	switch op {
	case graph.Abs, graph.Neg, graph.Sign, graph.Erf, graph.Tanh, graph.Logistic, graph.Floor, graph.Ceil, graph.Round, graph.Add, graph.Sub, graph.Mul, graph.Max, graph.Min, graph.Where,
		graph.Transpose, graph.BroadcastInDim, graph.Reverse, graph.Slice, graph.Pad, graph.Concatenate, graph.DynamicSlice, graph.DynamicUpdateSlice, graph.Gather,
		graph.Identity, graph.Reshape, graph.SelectAndScatterMax, graph.SelectAndScatterMin:
		return true
	}
	return op.Comparison()
}

// multiplies reports whether an operation is made of products.
func multiplies(op graph.Op) bool {
	return op.Class() == graph.Contraction || op == graph.Attention || op == graph.AttentionBackward
}

// oneByOne reports whether each result is an operand, or what ranks have of it one behind
// the other: 16 bits travel faster.
func oneByOne(n *graph.Node) bool {
	return n.Op == graph.OptimizationBarrier || n.Op == graph.AllGather && !n.Attr.(*graph.Together).Into
}

// reads says where an operand is wanted. inEither: where the node's result is made, or,
// for a comparison, wherever that is cheapest.
func (c *caster) reads(n *graph.Node, operand int) (p place, result int) {
	switch {
	case n.Op == graph.AttentionBackward && operand == 4: // the sums
		return inFloat32, 0
	case multiplies(n.Op):
		return in16Bits, 0
	case oneByOne(n):
		return inEither, operand
	case n.Op == graph.SchedulingBarrier && operand > 0, n.Op == graph.IsFinite, n.Op == graph.IsNaN:
		return asItIs, 0
	case n.Op == graph.Convert && n.Shapes[0].Type == c.t:
		return in16Bits, 0
	case n.Op == graph.Convert:
		return asItIs, 0
	case n.Op == graph.SchedulingBarrier, flexible(n.Op):
		return inEither, 0
	case n.Op == graph.ReduceWindow:
		if r := n.Attr.(*graph.Windows).Reduction; r == graph.ReduceMax || r == graph.ReduceMin {
			return inEither, 0
		}
	}
	return inFloat32, 0
}

// decide finds what is low: the division with the fewest bytes of casts is a minimum cut.
func (c *caster) decide() {
	nodes := c.g.Nodes()
	places := c.places(nodes)
	cut := mincut.New(0)
	at := map[graph.Value]int{} // float32 results, and comparisons
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
	readers := map[graph.Value][]int{}      // where a value is wanted, as nodes of the cut
	others := map[graph.Value]int{}         // how many operations read it that need not be low
	ends := map[graph.Value][]*graph.Node{} // the operations that read it
	want := func(v graph.Value, where int, mustBeLow bool) {
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
	for _, v := range c.g.Outputs() {
		if v.Shape().Type == dtype.F32 {
			want(v, mincut.Sink, false)
		}
	}
	for _, n := range nodes {
		if n.Op == graph.Constant {
			continue // is there in both
		}
		for i, s := range n.Shapes {
			v := n.Value(i)
			if s.Type != dtype.F32 {
				continue
			}
			net(cut, at[v], readers[v], castBytes(v, len(ends[v]) > 1 && others[v] > 0))
			if n.Op == graph.Convert && n.Inputs[0].Shape().Type == c.t {
				cut.Add(mincut.Source, at[v], castBytes(v, false)) // it is low already
			}
		}
		if n.Op.Class() == graph.Window && n.Inputs[0].Shape().Type == dtype.F32 {
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
func castBytes(v graph.Value, both bool) int64 {
	for v.Node().Op == graph.BroadcastInDim {
		v = v.Node().Inputs[0]
	}
	switch {
	case v.Node().Op == graph.Constant:
		return 0
	case both:
		return 3 * int64(v.Shape().Size())
	}
	return 2 * int64(v.Shape().Size())
}

// multiplied are the operations that a product depends on.
func multiplied(nodes []*graph.Node) map[*graph.Node]bool {
	found := map[*graph.Node]bool{}
	for i := len(nodes) - 1; i >= 0; i-- {
		if n := nodes[i]; found[n] || multiplies(n.Op) {
			for _, v := range n.Inputs {
				found[v.Node()] = true
			}
		}
	}
	return found
}

// places says for each float32 result, and each comparison of such, where it is made.
func (c *caster) places(nodes []*graph.Node) map[graph.Value]place {
	found := map[graph.Value]place{}
	needed := multiplied(nodes)
	reduced := map[graph.Value]bool{} // comes of reductions alone
	unfit := map[graph.Value]bool{}   // a constant, repeated or not, that 16 bits have not
	for _, n := range nodes {
		for i, s := range n.Shapes {
			v := n.Value(i)
			some, all, bad := false, true, false
			for j, x := range n.Inputs {
				if !x.Shape().Type.IsFloat() || oneByOne(n) && j != i || n.Op == graph.SchedulingBarrier && j > 0 {
					continue
				}
				bad = bad || unfit[x]
				if !constant(x) {
					some, all = some || reduced[x], all && reduced[x]
				}
			}
			reduced[v] = n.Op.Class() == graph.Reduction || some && all
			unfit[v] = n.Op == graph.Constant && s.Type == dtype.F32 && !c.fits(n.Attr.(graph.Data)) || bad && constant(v)
			if s.Type != dtype.F32 && !(n.Op.Comparison() && n.Inputs[0].Shape().Type == dtype.F32) {
				continue
			}
			found[v] = c.makes(n, i, needed[n])
			if found[v] == inEither && (bad || some && !all && n.Op.Class() == graph.Elementwise) {
				found[v] = inFloat32
			}
		}
	}
	return found
}

// makes says where a result is made, by the operation alone. needed: a product depends on
// it.
func (c *caster) makes(n *graph.Node, result int, needed bool) place {
	switch {
	case n.Op == graph.Constant:
		return inEither
	case n.Op == graph.Attention && result == 1: // the sums
	case multiplies(n.Op):
		if from := n.Inputs[0].Shape().Type; from != dtype.F32 && from != c.t || n.Op == graph.DotGeneral && !needed {
			return inFloat32
		}
		return in16Bits
	case n.Op == graph.Convert:
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
func constant(v graph.Value) bool {
	for v.Node().Op == graph.BroadcastInDim || v.Node().Op == graph.Reshape {
		v = v.Node().Inputs[0]
	}
	return v.Node().Op == graph.Constant
}

// fits reports whether numbers are as good in 16 bits as any: none is too large or too
// small.
func (c *caster) fits(data graph.Data) bool {
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
func (c *caster) rewrite() (*graph.Graph, error) {
	c.out = graph.New(c.g.Name())
	for _, n := range c.g.Nodes() {
		if p, ok := n.Attr.(*graph.Input); ok {
			v, err := c.out.Parameter(p.Name, n.Shapes[0])
			if err != nil {
				return nil, fmt.Errorf("autocast: %w", err)
			}
			c.set(n.Value(0), v)
			continue
		}
		in := make([]graph.Value, len(n.Inputs))
		for j, v := range n.Inputs {
			p, i := c.reads(n, j)
			lower := p == in16Bits || p == inEither && c.low[n.Value(i)] || p == asItIs && c.low[v]
			in[j] = c.as(v, lower)
		}
		shapes := make([]graph.Shape, len(n.Shapes))
		for i, s := range n.Shapes {
			if shapes[i] = s; s.Type == dtype.F32 && c.low[n.Value(i)] {
				shapes[i] = s.With(c.t)
			}
		}
		if n.Op == graph.Convert && in[0].Shape().Equal(shapes[0]) {
			c.set(n.Value(0), in[0])
			continue
		}
		attr := n.Attr
		if a, ok := attr.(*graph.DotAxes); ok && n.Shapes[0].Type == dtype.F32 {
			b := *a
			b.Result = shapes[0].Type
			attr = &b
		}
		m := c.out.Append(n.Op, attr, shapes, in...)
		for i := range n.Shapes {
			c.set(n.Value(i), m.Value(i))
		}
	}
	var outputs []graph.Value
	for _, v := range c.g.Outputs() {
		outputs = append(outputs, c.as(v, false))
	}
	return c.out.Part(c.out.Parameters(), outputs)
}

func (c *caster) set(v, now graph.Value) {
	i := 0
	if v.Shape().Type == dtype.F32 && c.low[v] {
		i = 1
	}
	c.form[i][v] = now
}

// as is a value in the copy, in 16 bits if lower is true and it was float32.
func (c *caster) as(v graph.Value, lower bool) graph.Value {
	i, t := 0, v.Shape().Type
	if t == dtype.F32 && lower {
		i, t = 1, c.t
	}
	if now, ok := c.form[i][v]; ok {
		return now
	}
	n := v.Node()
	var now graph.Value
	switch data, ok := n.Attr.(graph.Data); {
	case ok:
		var narrow graph.Data
		for k := 0; k+4 <= len(data); k += 4 {
			narrow = binary.LittleEndian.AppendUint16(narrow, c.narrow(math.Float32frombits(binary.LittleEndian.Uint32(data[k:]))))
		}
		now = c.append(graph.Constant, narrow, v.Shape().With(t))
	case n.Op == graph.BroadcastInDim:
		now = c.append(graph.BroadcastInDim, n.Attr, v.Shape().With(t), c.as(n.Inputs[0], lower))
	default:
		now = c.append(graph.Convert, nil, v.Shape().With(t), c.form[1-i][v])
	}
	c.form[i][v] = now
	return now
}

// append adds an operation with one result to the copy.
func (c *caster) append(op graph.Op, attr any, s graph.Shape, inputs ...graph.Value) graph.Value {
	return c.out.Append(op, attr, []graph.Shape{s}, inputs...).Value(0)
}
