package graph

import (
	"github.com/pinion-gpu/pinion/dtype"
)

// Unary adds an element-wise operation of one operand, [Abs] to [IsNaN].
func (g *Graph) Unary(op Op, x Value) (Value, error) {
	if op < Abs || op > IsNaN {
		return Value{}, bad(op, []Value{x}, "it is no operation of one operand")
	}
	if err := g.check(op, x); err != nil {
		return Value{}, err
	}
	return g.add(op, nil, resultShape(op, x.Shape()), x), nil
}

// Binary adds an element-wise operation of two operands, [Add] to
// [GreaterOrEqualTotalOrder]. Their types are the same. Scalars go with every shape;
// other operands have the same rank, and an axis of one element is repeated.
func (g *Graph) Binary(op Op, x, y Value) (Value, error) {
	if op < Add || op > GreaterOrEqualTotalOrder {
		return Value{}, bad(op, []Value{x, y}, "it is no operation of two operands")
	}
	if err := g.check(op, x, y); err != nil {
		return Value{}, err
	}
	if x.Shape().Type != y.Shape().Type {
		return Value{}, bad(op, []Value{x, y}, "the types differ")
	}
	dims, err := broadcast(x.Shape(), y.Shape())
	if err != nil {
		return Value{}, bad(op, []Value{x, y}, "%v", err)
	}
	return g.checked(op, nil, resultShape(op, Shape{x.Shape().Type, dims}), x, y)
}

func resultShape(op Op, s Shape) Shape {
	if t := ops[op].result; t != 0 {
		return s.With(t)
	}
	return s
}

// Where adds a choice: an element is onTrue's where condition, which is bool, is true,
// and onFalse's elsewhere. Shapes go together as in [Graph.Binary].
func (g *Graph) Where(condition, onTrue, onFalse Value) (Value, error) {
	in := []Value{condition, onTrue, onFalse}
	if err := g.check(Where, in...); err != nil {
		return Value{}, err
	}
	t := onTrue.Shape().Type
	if condition.Shape().Type != dtype.Bool || t != onFalse.Shape().Type {
		return Value{}, bad(Where, in, "the condition has to be bool, and the others of one type")
	}
	dims, err := broadcast(condition.Shape(), onTrue.Shape(), onFalse.Shape())
	if err != nil {
		return Value{}, bad(Where, in, "%v", err)
	}
	return g.checked(Where, nil, Shape{t, dims}, in...)
}

// Convert adds a conversion of elements to another type. Floating-point numbers are
// rounded to nearest, ties to even; to integers, they are cut off towards zero, beyond
// the range give the nearest number in it, and NaN gives 0. Integers wrap around. A
// bool is whether a number is not zero, and becomes 0 or 1. To a value's own type, it is
// the value.
func (g *Graph) Convert(x Value, t dtype.DType) (Value, error) {
	if err := g.check(Convert, x); err != nil {
		return Value{}, err
	}
	if x.Shape().Type == t {
		return x, nil
	}
	return g.checked(Convert, nil, x.Shape().With(t), x)
}

// Clamp adds max(low, min(x, high)). The bounds are scalars or of x's shape.
func (g *Graph) Clamp(low, x, high Value) (Value, error) {
	y, err := g.Binary(Min, x, high)
	if err != nil {
		return Value{}, err
	}
	return g.Binary(Max, y, low)
}

// Identity adds a value that is x again.
func (g *Graph) Identity(x Value) (Value, error) {
	if err := g.check(Identity, x); err != nil {
		return Value{}, err
	}
	return g.add(Identity, nil, x.Shape(), x), nil
}

// Reshape adds x with other axes, and the same elements in the same order.
func (g *Graph) Reshape(x Value, dims ...int) (Value, error) {
	if err := g.check(Reshape, x); err != nil {
		return Value{}, err
	}
	s := MakeShape(x.Shape().Type, dims...)
	if err := s.Check(); err != nil {
		return Value{}, bad(Reshape, []Value{x}, "%v", err)
	}
	if s.Size() != x.Shape().Size() {
		return Value{}, bad(Reshape, []Value{x}, "%v has %d elements, not %d", s, s.Size(), x.Shape().Size())
	}
	return g.add(Reshape, nil, s, x), nil
}

// Bitcast adds the bytes of x as elements of another type. If those are smaller, there
// is one axis more for those of one element; if they are larger, the last axis is the
// elements that become one.
func (g *Graph) Bitcast(x Value, t dtype.DType) (Value, error) {
	if err := g.check(Bitcast, x); err != nil {
		return Value{}, err
	}
	s := MakeShape(t, x.Shape().Dims...)
	from, to := x.Shape().Type.Size(), t.Size()
	switch {
	case !t.Valid():
		return Value{}, bad(Bitcast, []Value{x}, "there is no type %v", t)
	case from > to:
		s.Dims = append(s.Dims, from/to)
	case from < to:
		last := s.Rank() - 1
		if last < 0 || s.Dims[last] != to/from {
			return Value{}, bad(Bitcast, []Value{x}, "elements of %v are made of %d: the last axis has to be that long", t, to/from)
		}
		s.Dims = s.Dims[:last]
	}
	return g.checked(Bitcast, nil, s, x)
}

// OptimizationBarrier adds values that are the operands again, but that passes do not
// know to be: what is computed of them is not merged with what is computed of the
// operands. It keeps apart what is meant to be computed again.
func (g *Graph) OptimizationBarrier(xs ...Value) ([]Value, error) {
	if err := g.check(OptimizationBarrier, xs...); err != nil {
		return nil, err
	}
	n := g.Append(OptimizationBarrier, nil, shapesOf(xs), xs...)
	values := make([]Value, len(xs))
	for i := range xs {
		values[i] = n.Value(i)
	}
	return values, nil
}

// SchedulingBarrier adds a value that is x again, but that is there only when all of
// after are, too.
func (g *Graph) SchedulingBarrier(x Value, after ...Value) (Value, error) {
	in := append([]Value{x}, after...)
	if err := g.check(SchedulingBarrier, in...); err != nil {
		return Value{}, err
	}
	return g.add(SchedulingBarrier, nil, x.Shape(), in...), nil
}

// RNGBitGenerator adds random bits, of any shape and type but bool, and the state
// behind them. The generator is Philox4x32-10 (Salmon et al., SC 2011). The state is
// u64[3]: a key, and a counter of 128 bits, low half first. Each counter value gives
// 16 bytes of the result, in order; the new state has the first counter that was not
// used. So the same state gives the same bits, on every device, however the work is
// split.
func (g *Graph) RNGBitGenerator(state Value, s Shape) (newState, bits Value, err error) {
	if err := g.check(RNGBitGenerator, state); err != nil {
		return Value{}, Value{}, err
	}
	if want := MakeShape(dtype.U64, 3); !state.Shape().Equal(want) {
		return Value{}, Value{}, bad(RNGBitGenerator, []Value{state}, "the state has to be %v", want)
	}
	if err := s.Check(); err != nil || s.Type == dtype.Bool {
		return Value{}, Value{}, bad(RNGBitGenerator, []Value{state}, "there are no random bits of %v", s)
	}
	n := g.Append(RNGBitGenerator, nil, []Shape{state.Shape(), MakeShape(s.Type, s.Dims...)}, state)
	return n.Value(0), n.Value(1), nil
}
