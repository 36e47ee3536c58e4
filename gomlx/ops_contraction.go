package gomlx

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pkg/errors"
)

// DotGeneral adds up in the accumulator's type where that holds more than step's own
// (float32 for numbers of 16 bits), and in step's own where it holds less.
func (f *function) DotGeneral(lhs compute.Value, lhsContracted, lhsBatch []int, rhs compute.Value, rhsContracted, rhsBatch []int, config compute.DotGeneralConfig) (compute.Value, error) {
	in, err := f.operands(lhs, rhs)
	if err != nil {
		return nil, err
	}
	own := in[0].Shape().Type
	accumulator, result := own, own
	for _, c := range []struct {
		to   *dtype.DType
		from dtypes.DType
	}{{&accumulator, config.AccumulatorDType}, {&result, config.OutputDType}} {
		if c.from != dtypes.InvalidDType {
			if *c.to, err = toType(c.from); err != nil {
				return nil, errors.WithStack(err)
			}
		}
	}
	axes := graph.DotAxes{Contracted: [2][]int{lhsContracted, rhsContracted}, Batch: [2][]int{lhsBatch, rhsBatch}, Result: accumulator}
	switch {
	case accumulator == dtype.F64, accumulator.IsFloat() && !own.IsFloat():
		for i := range in {
			if in[i], err = f.graph.Convert(in[i], accumulator); err != nil {
				return nil, errors.WithStack(err)
			}
		}
	case own.IsFloat():
		axes.Result = own
	}
	if in[0].Shape().Type.IsFloat() && result.IsFloat() {
		axes.Result = result // rounded once
	}
	product, err := f.graph.DotGeneral(in[0], in[1], axes)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	return f.value(f.graph.Convert(product, result))
}

func (f *function) ConvGeneral(image, kernel compute.Value, axes compute.ConvolveAxesConfig, strides []int, paddings [][2]int, inputDilations, kernelDilations []int, channelGroupCount, batchGroupCount int) (compute.Value, error) {
	in, err := f.operands(image, kernel)
	if err != nil {
		return nil, err
	}
	low, high := split(paddings)
	return f.value(f.graph.ConvGeneral(in[0], in[1], graph.ConvAxes{
		ImageBatch: axes.InputBatch, ImageChannels: axes.InputChannels, ImageSpatial: axes.InputSpatial,
		KernelInput: axes.KernelInputChannels, KernelOutput: axes.KernelOutputChannels, KernelSpatial: axes.KernelSpatial,
		ResultBatch: axes.OutputBatch, ResultChannels: axes.OutputChannels, ResultSpatial: axes.OutputSpatial,
		Strides: orDefault(strides), Low: low, High: high,
		Dilation: orDefault(inputDilations), KernelDilation: orDefault(kernelDilations),
		ChannelGroups: channelGroupCount, BatchGroups: batchGroupCount,
	}))
}
