package gomlx

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pkg/errors"
)

func (f *function) Iota(shape shapes.Shape, axis int) (compute.Value, error) {
	if _, err := f.operands(); err != nil {
		return nil, err
	}
	s, err := toShape(shape)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	return f.value(f.graph.Iota(s, axis))
}

func (f *function) Reshape(x compute.Value, dims ...int) (compute.Value, error) {
	in, err := f.operands(x)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.Reshape(in[0], dims...))
}

func (f *function) Transpose(x compute.Value, permutation ...int) (compute.Value, error) {
	in, err := f.operands(x)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.Transpose(in[0], permutation...))
}

func (f *function) BroadcastInDim(x compute.Value, shape shapes.Shape, axes []int) (compute.Value, error) {
	in, err := f.operands(x)
	if err != nil {
		return nil, err
	}
	s, err := toShape(shape)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	return f.value(f.graph.BroadcastInDim(in[0], s.Dims, axes))
}

func (f *function) Reverse(x compute.Value, axes ...int) (compute.Value, error) {
	in, err := f.operands(x)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.Reverse(in[0], axes...))
}

func (f *function) Slice(x compute.Value, starts, limits, strides []int) (compute.Value, error) {
	in, err := f.operands(x)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.Slice(in[0], starts, limits, strides))
}

// Pad takes fewer axes than x has; the others are not padded.
func (f *function) Pad(x, fill compute.Value, axes ...compute.PadAxis) (compute.Value, error) {
	in, err := f.operands(x, fill)
	if err != nil {
		return nil, err
	}
	var p graph.Padding
	for i := range max(in[0].Shape().Rank(), len(axes)) {
		var a compute.PadAxis
		if i < len(axes) {
			a = axes[i]
		}
		p.Low, p.High, p.Interior = append(p.Low, a.Start), append(p.High, a.End), append(p.Interior, a.Interior)
	}
	return f.value(f.graph.Pad(in[0], in[1], p))
}

func (f *function) Concatenate(axis int, xs ...compute.Value) (compute.Value, error) {
	in, err := f.operands(xs...)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.Concatenate(axis, in...))
}

func (f *function) DynamicSlice(x compute.Value, starts []compute.Value, sizes []int) (compute.Value, error) {
	in, err := f.operands(x)
	if err != nil {
		return nil, err
	}
	at, err := f.starts(starts)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.DynamicSlice(in[0], at, sizes))
}

func (f *function) DynamicUpdateSlice(x, update compute.Value, starts []compute.Value) (compute.Value, error) {
	in, err := f.operands(x, update)
	if err != nil {
		return nil, err
	}
	at, err := f.starts(starts)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.DynamicUpdateSlice(in[0], in[1], at))
}

// starts are scalars, which GoMLX may give as one value with one axis.
func (f *function) starts(starts []compute.Value) ([]graph.Value, error) {
	in, err := f.operands(starts...)
	if err != nil || len(in) != 1 || in[0].Shape().Rank() != 1 {
		return in, err
	}
	all := in[0]
	in = nil
	for i := range all.Shape().Dims[0] {
		one, err := f.graph.Slice(all, []int{i}, []int{i + 1}, nil)
		if err != nil {
			return nil, errors.WithStack(err)
		}
		start, err := f.graph.Reshape(one)
		if err != nil {
			return nil, errors.WithStack(err)
		}
		in = append(in, start)
	}
	return in, nil
}

// Gather does not use that indices are sorted.
func (f *function) Gather(x, indices compute.Value, indexVectorAxis int, offsetOutputAxes, collapsedSliceAxes, startIndexMap, sliceSizes []int, _ bool) (compute.Value, error) {
	in, err := f.operands(x, indices)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.Gather(in[0], in[1], graph.GatherAxes{
		IndexVector: indexVectorAxis,
		StartIndex:  startIndexMap,
		Sizes:       sliceSizes,
		Collapsed:   collapsedSliceAxes,
		Offset:      offsetOutputAxes,
	}))
}

func (f *function) ScatterSum(x, indices, updates compute.Value, indexVectorAxis int, updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes []int, _, _ bool) (compute.Value, error) {
	return f.scatter(graph.ScatterSum, x, indices, updates, indexVectorAxis, updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes)
}

func (f *function) ScatterMax(x, indices, updates compute.Value, indexVectorAxis int, updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes []int, _, _ bool) (compute.Value, error) {
	return f.scatter(graph.ScatterMax, x, indices, updates, indexVectorAxis, updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes)
}

func (f *function) ScatterMin(x, indices, updates compute.Value, indexVectorAxis int, updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes []int, _, _ bool) (compute.Value, error) {
	return f.scatter(graph.ScatterMin, x, indices, updates, indexVectorAxis, updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes)
}

func (f *function) scatter(op graph.Op, x, indices, updates compute.Value, indexVectorAxis int, updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes []int) (compute.Value, error) {
	in, err := f.operands(x, indices, updates)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.Scatter(op, in[0], in[1], in[2], graph.ScatterAxes{
		IndexVector: indexVectorAxis,
		StartIndex:  scatterAxesToOperandAxes,
		Window:      updateWindowAxes,
		Inserted:    insertedWindowAxes,
	}))
}

func (f *function) RNGBitGenerator(state compute.Value, shape shapes.Shape) (newState, values compute.Value, err error) {
	in, err := f.operands(state)
	if err != nil {
		return nil, nil, err
	}
	s, err := toShape(shape)
	if err != nil {
		return nil, nil, errors.WithStack(err)
	}
	next, bits, err := f.graph.RNGBitGenerator(in[0], s)
	if err != nil {
		return nil, nil, errors.WithStack(err)
	}
	return next, bits, nil
}
