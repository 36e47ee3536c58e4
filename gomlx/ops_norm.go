package gomlx

import (
	"github.com/gomlx/compute"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pkg/errors"
)

func (f *function) BatchNormForTraining(x, scale, offset compute.Value, epsilon float32, featureAxis int) (normalized, batchMean, batchVariance compute.Value, err error) {
	in, err := f.operands(x, scale, offset)
	if err != nil {
		return nil, nil, nil, err
	}
	return three(f.graph.BatchNormTraining(in[0], in[1], in[2], float64(epsilon), featureAxis))
}

func (f *function) BatchNormForInference(x, scale, offset, mean, variance compute.Value, epsilon float32, featureAxis int) (compute.Value, error) {
	in, err := f.operands(x, scale, offset, mean, variance)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.BatchNormInference(in[0], in[1], in[2], in[3], in[4], float64(epsilon), featureAxis))
}

func (f *function) BatchNormGradient(x, scale, mean, variance, gradient compute.Value, epsilon float32, featureAxis int) (dx, dscale, doffset compute.Value, err error) {
	in, err := f.operands(x, scale, mean, variance, gradient)
	if err != nil {
		return nil, nil, nil, err
	}
	return three(f.graph.BatchNormGradient(in[0], in[1], in[2], in[3], in[4], float64(epsilon), featureAxis))
}

func three(a, b, c graph.Value, err error) (compute.Value, compute.Value, compute.Value, error) {
	if err != nil {
		return nil, nil, nil, errors.WithStack(err)
	}
	return a, b, c, nil
}
