package gomlx

import (
	"fmt"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/pkg/errors"
)

func (f *function) ReduceSum(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceSum, graph.ReduceSum, x, axes)
}

func (f *function) ReduceProduct(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceProduct, graph.ReduceProduct, x, axes)
}

func (f *function) ReduceMax(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceMax, graph.ReduceMax, x, axes)
}

func (f *function) ReduceMin(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceMin, graph.ReduceMin, x, axes)
}

func (f *function) ReduceBitwiseAnd(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceBitwiseAnd, graph.ReduceAnd, x, axes)
}

func (f *function) ReduceBitwiseOr(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceBitwiseOr, graph.ReduceOr, x, axes)
}

func (f *function) ReduceBitwiseXor(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceBitwiseXor, graph.ReduceXor, x, axes)
}

func (f *function) ReduceLogicalAnd(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceLogicalAnd, graph.ReduceAnd, x, axes)
}

func (f *function) ReduceLogicalOr(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceLogicalOr, graph.ReduceOr, x, axes)
}

func (f *function) ReduceLogicalXor(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceLogicalXor, graph.ReduceXor, x, axes)
}

func (f *function) reduce(op compute.OpType, reduction graph.Op, x compute.Value, axes []int) (compute.Value, error) {
	in, err := f.operands(x)
	if err != nil {
		return nil, err
	}
	if err := bitsOf(op, in[0]); err != nil {
		return nil, err
	}
	return f.value(f.graph.Reduce(reduction, in[0], axes...))
}

func (f *function) ArgMinMax(x compute.Value, axis int, t dtypes.DType, isMin bool) (compute.Value, error) {
	in, to, err := f.withType(x, t)
	if err != nil {
		return nil, err
	}
	op := graph.ArgMax
	if isMin {
		op = graph.ArgMin
	}
	return f.value(f.graph.ArgMinMax(op, in, axis, to))
}

// windowReductions are those that windows can be reduced by.
var windowReductions = map[compute.ReduceOpType]graph.Op{
	compute.ReduceOpSum:     graph.ReduceSum,
	compute.ReduceOpProduct: graph.ReduceProduct,
	compute.ReduceOpMax:     graph.ReduceMax,
	compute.ReduceOpMin:     graph.ReduceMin,
}

func (f *function) ReduceWindow(x compute.Value, reduction compute.ReduceOpType, dims, strides, inputDilations, windowDilations []int, paddings [][2]int) (compute.Value, error) {
	in, err := f.operands(x)
	if err != nil {
		return nil, err
	}
	op, ok := windowReductions[reduction]
	if !ok {
		return nil, errors.WithStack(fmt.Errorf("%s: %w: ReduceWindow has no reduction %v", Name, ErrArgument, reduction))
	}
	w := windows(dims, strides, paddings)
	w.Reduction, w.Dilation, w.WindowDilation = op, orDefault(inputDilations), orDefault(windowDilations)
	return f.value(f.graph.ReduceWindow(in[0], w))
}

func (f *function) SelectAndScatterMax(x, source compute.Value, dims, strides []int, paddings [][2]int) (compute.Value, error) {
	return f.selectAndScatter(graph.SelectAndScatterMax, x, source, dims, strides, paddings)
}

func (f *function) SelectAndScatterMin(x, source compute.Value, dims, strides []int, paddings [][2]int) (compute.Value, error) {
	return f.selectAndScatter(graph.SelectAndScatterMin, x, source, dims, strides, paddings)
}

func (f *function) selectAndScatter(op graph.Op, x, source compute.Value, dims, strides []int, paddings [][2]int) (compute.Value, error) {
	in, err := f.operands(x, source)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.SelectAndScatter(op, in[0], in[1], windows(dims, strides, paddings)))
}

func windows(dims, strides []int, paddings [][2]int) graph.Windows {
	low, high := split(paddings)
	return graph.Windows{Dims: orDefault(dims), Strides: orDefault(strides), Low: low, High: high}
}

// orDefault makes an empty list nil, which step takes for the default.
func orDefault(list []int) []int {
	if len(list) == 0 {
		return nil
	}
	return list
}

func split(paddings [][2]int) (low, high []int) {
	for _, p := range paddings {
		low, high = append(low, p[0]), append(high, p[1])
	}
	return low, high
}
