package graph

import (
	"slices"

	"github.com/pinion-gpu/pinion/dtype"
)

// Reduce adds a reduction, [ReduceSum] to [ReduceXor], over the given axes, which the
// result has not; over all if none is given. Of no elements, the result is the
// operation's neutral element; the maximum is then the lowest number there is. The
// order is fixed for a shape and a device: results are the same each time. Numbers of
// 16 bits are added up in float32.
func (g *Graph) Reduce(op Op, x Value, axes ...int) (Value, error) {
	if op < ReduceSum || op > ReduceXor {
		return Value{}, bad(op, []Value{x}, "it is no reduction")
	}
	if err := g.check(op, x); err != nil {
		return Value{}, err
	}
	s := x.Shape()
	if !distinct(axes, s.Rank()) {
		return Value{}, bad(op, []Value{x}, "%v are not different axes", axes)
	}
	if len(axes) == 0 {
		for i := range s.Dims {
			axes = append(axes, i)
		}
	}
	axes = slices.Sorted(slices.Values(axes))
	out := Shape{Type: s.Type}
	for i, d := range s.Dims {
		if !slices.Contains(axes, i) {
			out.Dims = append(out.Dims, d)
		}
	}
	return g.add(op, Axes(axes), out, x), nil
}

// ArgMinMax adds where along an axis the largest element is ([ArgMax]), or the smallest
// ([ArgMin]), as integers of type t: the first of several, and a NaN before all others.
func (g *Graph) ArgMinMax(op Op, x Value, axis int, t dtype.DType) (Value, error) {
	if op != ArgMax && op != ArgMin {
		return Value{}, bad(op, []Value{x}, "it is neither ArgMax nor ArgMin")
	}
	if err := g.check(op, x); err != nil {
		return Value{}, err
	}
	s := x.Shape()
	if axis < 0 || axis >= s.Rank() || s.Dims[axis] == 0 || !isInt(t) {
		return Value{}, bad(op, []Value{x}, "axis %d, as %v", axis, t)
	}
	return g.add(op, Axis(axis), Shape{t, slices.Delete(slices.Clone(s.Dims), axis, axis+1)}, x), nil
}

// Windows is how windows lie over an operand. Each list has a number for each axis, or
// is nil for the default.
type Windows struct {
	Reduction      Op    // [ReduceSum], [ReduceProduct], [ReduceMax] or [ReduceMin]; nothing for the others that have windows
	Dims           []int // of a window. Default: 1
	Strides        []int // from a window to the next. Default: Dims
	Low, High      []int // elements, neutral ones, before and behind the operand's. Default: 0
	Dilation       []int // the operand's elements are that far apart, with neutral ones between. Default: 1
	WindowDilation []int // elements in a window are that far apart. Default: 1
}

// fill replaces what is not there by defaults, in copies, and returns the result's
// dimensions.
func (w *Windows) fill(op Op, in []Value) ([]int, error) {
	rank := in[0].Shape().Rank()
	orElse := func(list *[]int, value int) {
		if *list == nil {
			*list = repeat(value, rank)
		}
		*list = slices.Clone(*list)
	}
	orElse(&w.Dims, 1)
	if w.Strides == nil {
		w.Strides = w.Dims
	}
	orElse(&w.Strides, 1)
	orElse(&w.Low, 0)
	orElse(&w.High, 0)
	orElse(&w.Dilation, 1)
	orElse(&w.WindowDilation, 1)
	for _, list := range [][]int{w.Dims, w.Strides, w.Low, w.High, w.Dilation, w.WindowDilation} {
		if len(list) != rank {
			return nil, bad(op, in, "%v is not one number for each axis", list)
		}
	}
	dims := make([]int, rank)
	for i, d := range in[0].Shape().Dims {
		n, ok := windowsAlong(d, w.Dims[i], w.Strides[i], w.Low[i], w.High[i], w.Dilation[i], w.WindowDilation[i])
		if !ok {
			return nil, bad(op, in, "no window of %d, stride %d, dilation %d fits axis %d with %d elements before, %d behind, and dilation %d",
				w.Dims[i], w.Strides[i], w.WindowDilation[i], i, w.Low[i], w.High[i], w.Dilation[i])
		}
		dims[i] = n
	}
	return dims, nil
}

// windowsAlong is how many windows lie along an axis of d elements.
func windowsAlong(d, window, stride, low, high, dilation, windowDilation int) (int, bool) {
	if window < 1 || stride < 1 || dilation < 1 || windowDilation < 1 {
		return 0, false
	}
	span := max(d-1, -1)*dilation + 1
	if d == 0 {
		span = 0
	}
	reach := (window-1)*windowDilation + 1
	if span+low+high < reach {
		return 0, false
	}
	return (span+low+high-reach)/stride + 1, true
}

// ReduceWindow adds a reduction over each of the windows that lie over x.
func (g *Graph) ReduceWindow(x Value, w Windows) (Value, error) {
	in := []Value{x}
	if err := g.check(ReduceWindow, in...); err != nil {
		return Value{}, err
	}
	if w.Reduction < ReduceSum || w.Reduction > ReduceMin {
		return Value{}, bad(ReduceWindow, in, "windows are not reduced by %v", w.Reduction)
	}
	dims, err := w.fill(ReduceWindow, in)
	if err != nil {
		return Value{}, err
	}
	return g.checked(ReduceWindow, &w, Shape{x.Shape().Type, dims}, x)
}

// SelectAndScatter adds a value of x's shape in which each element of source is added at
// the largest element of its window ([SelectAndScatterMax]), or the smallest: the
// gradient of pooling. The first of several takes it, and a NaN before all others.
// Windows are not dilated.
func (g *Graph) SelectAndScatter(op Op, x, source Value, w Windows) (Value, error) {
	in := []Value{x, source}
	if op != SelectAndScatterMax && op != SelectAndScatterMin {
		return Value{}, bad(op, in, "it does not select and scatter")
	}
	if err := g.check(op, in...); err != nil {
		return Value{}, err
	}
	if w.Dilation != nil || w.WindowDilation != nil || w.Reduction != 0 {
		return Value{}, bad(op, in, "windows are neither dilated nor reduced: %+v", w)
	}
	dims, err := w.fill(op, in)
	if err != nil {
		return Value{}, err
	}
	if !source.Shape().Equal(Shape{x.Shape().Type, dims}) {
		return Value{}, bad(op, in, "there are windows %v", dims)
	}
	return g.add(op, &w, x.Shape(), in...), nil
}
