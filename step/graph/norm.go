package graph

import (
	"encoding/binary"
	"math"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
)

// Fill adds a constant of the given shape whose elements are all v, rounded to the type:
// a scalar, broadcast.
func (g *Graph) Fill(v float64, s Shape) (Value, error) {
	if err := s.Check(); err != nil {
		return Value{}, bad(Constant, nil, "%v", err)
	}
	c, err := g.Constant(scalarBytes(v, s.Type), Shape{Type: s.Type})
	if err != nil || s.Rank() == 0 {
		return c, err
	}
	return g.BroadcastInDim(c, s.Dims, nil)
}

func scalarBytes(v float64, t dtype.DType) []byte {
	var bits uint64
	switch t {
	case dtype.F64:
		bits = math.Float64bits(v)
	case dtype.F32:
		bits = uint64(math.Float32bits(float32(v)))
	case dtype.F16:
		bits = uint64(float16.ToF16(float16.RoundToOdd(v)))
	case dtype.BF16:
		bits = uint64(float16.ToBF16(float16.RoundToOdd(v)))
	case dtype.Bool:
		if v != 0 {
			bits = 1
		}
	case dtype.U64:
		bits = uint64(v)
	default:
		bits = uint64(int64(v))
	}
	return binary.LittleEndian.AppendUint64(nil, bits)[:t.Size()]
}

// BatchNormTraining adds the operations of a batch normalisation: x less its mean,
// divided by the square root of its variance and epsilon, times scale and plus offset,
// for each feature, over all axes but that of the features. It returns the mean and the
// (biased) variance, too. scale and offset have a number for each feature, of x's type.
// Means and variances of 16-bit numbers are computed in float32, and rounded.
func (g *Graph) BatchNormTraining(x, scale, offset Value, epsilon float64, feature int) (y, mean, variance Value, err error) {
	n, err := g.normOf(x, feature, scale, offset)
	if err != nil {
		return Value{}, Value{}, Value{}, err
	}
	mean = n.mean(n.x)
	centered := n.sub(n.x, n.wide(mean))
	variance = n.mean(n.mul(centered, centered))
	y = n.mul(centered, n.wide(n.rsqrt(variance, epsilon)))
	y = n.add(n.mul(y, n.wide(n.float(scale))), n.wide(n.float(offset)))
	return n.back(y), n.back(mean), n.back(variance), n.err
}

// BatchNormInference adds a batch normalisation by a mean and a variance that are known.
func (g *Graph) BatchNormInference(x, scale, offset, mean, variance Value, epsilon float64, feature int) (Value, error) {
	n, err := g.normOf(x, feature, scale, offset, mean, variance)
	if err != nil {
		return Value{}, err
	}
	y := n.mul(n.sub(n.x, n.wide(n.float(mean))), n.wide(n.rsqrt(n.float(variance), epsilon)))
	y = n.add(n.mul(y, n.wide(n.float(scale))), n.wide(n.float(offset)))
	return n.back(y), n.err
}

// BatchNormGradient adds the gradients of a [Graph.BatchNormTraining] with regard to x,
// scale and offset, given that with regard to its result.
func (g *Graph) BatchNormGradient(x, scale, mean, variance, gradient Value, epsilon float64, feature int) (dx, dscale, doffset Value, err error) {
	n, err := g.normOf(x, feature, scale, mean, variance)
	if err != nil {
		return Value{}, Value{}, Value{}, err
	}
	if !gradient.Shape().Equal(x.Shape()) {
		return Value{}, Value{}, Value{}, bad(Mul, []Value{x, gradient}, "the gradient of a normalisation has the shape of its operand")
	}
	dy := n.float(gradient)
	centered := n.sub(n.x, n.wide(n.float(mean)))
	inverse := n.rsqrt(n.float(variance), epsilon)
	along := n.mul(dy, centered)
	dscale = n.mul(n.sum(along), inverse)
	doffset = n.sum(dy)
	slope := n.mul(n.mean(along), n.mul(inverse, inverse))
	dx = n.sub(n.sub(dy, n.wide(n.mean(dy))), n.mul(centered, n.wide(slope)))
	dx = n.mul(dx, n.wide(n.mul(n.float(scale), inverse)))
	return n.back(dx), n.back(dscale), n.back(doffset), n.err
}

// norm adds operations until one fails.
type norm struct {
	g       *Graph
	x       Value // in the type that it computes in
	feature int
	others  []int
	result  dtype.DType
	err     error
}

func (g *Graph) normOf(x Value, feature int, perFeature ...Value) (*norm, error) {
	if err := g.check(Sqrt, append([]Value{x}, perFeature...)...); err != nil {
		return nil, err
	}
	s := x.Shape()
	if feature < 0 || feature >= s.Rank() {
		return nil, bad(Mul, []Value{x}, "a normalisation has no features along axis %d", feature)
	}
	want := MakeShape(s.Type, s.Dims[feature])
	for _, v := range perFeature {
		if !v.Shape().Equal(want) {
			return nil, bad(Mul, []Value{x, v}, "a normalisation takes %v for each feature", want)
		}
	}
	n := &norm{g: g, feature: feature, result: s.Type}
	for i := range s.Dims {
		if i != feature {
			n.others = append(n.others, i)
		}
	}
	n.x = n.float(x)
	return n, nil
}

func (n *norm) keep(v Value, err error) Value {
	if n.err == nil {
		n.err = err
	}
	return v
}

func (n *norm) do(f func() (Value, error)) Value {
	if n.err != nil {
		return Value{}
	}
	return n.keep(f())
}

func (n *norm) binary(op Op, x, y Value) Value {
	return n.do(func() (Value, error) { return n.g.Binary(op, x, y) })
}
func (n *norm) add(x, y Value) Value { return n.binary(Add, x, y) }
func (n *norm) sub(x, y Value) Value { return n.binary(Sub, x, y) }
func (n *norm) mul(x, y Value) Value { return n.binary(Mul, x, y) }

// float is v in the type that is computed in, and back in that of the operands.
func (n *norm) float(v Value) Value {
	t := v.Shape().Type
	if t != dtype.F64 {
		t = dtype.F32
	}
	return n.do(func() (Value, error) { return n.g.Convert(v, t) })
}

func (n *norm) back(v Value) Value {
	return n.do(func() (Value, error) { return n.g.Convert(v, n.result) })
}

func (n *norm) sum(v Value) Value {
	if len(n.others) == 0 {
		return v
	}
	return n.do(func() (Value, error) { return n.g.Reduce(ReduceSum, v, n.others...) })
}

func (n *norm) scalar(v float64) Value {
	return n.do(func() (Value, error) { return n.g.Fill(v, Shape{Type: n.x.Shape().Type}) })
}

func (n *norm) mean(v Value) Value {
	s := n.x.Shape()
	count := 1
	for _, axis := range n.others {
		count *= s.Dims[axis]
	}
	return n.mul(n.sum(v), n.scalar(1/float64(count)))
}

func (n *norm) rsqrt(variance Value, epsilon float64) Value {
	v := n.add(variance, n.scalar(epsilon))
	return n.do(func() (Value, error) { return n.g.Unary(Rsqrt, v) })
}

// wide repeats a number for each feature over the whole shape.
func (n *norm) wide(v Value) Value {
	return n.do(func() (Value, error) { return n.g.BroadcastInDim(v, n.x.Shape().Dims, []int{n.feature}) })
}
