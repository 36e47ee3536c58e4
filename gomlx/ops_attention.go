package gomlx

import (
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/gomlx/compute"
	"github.com/pkg/errors"
)

// mostHead is the largest head that attention takes on every device.
const mostHead = 1024

// attention says how an attention is computed as one operation. One with a mask, a bias
// or lengths of its own is not implemented: GoMLX takes it apart, and its gradients.
// QuantizedMatmuls is a hint that changes nothing.
func attention(layout compute.AttentionAxesLayout, o *compute.ScaledDotProductAttentionConfig, q graph.Value) (graph.AttentionOptions, error) {
	if o == nil {
		o = &compute.ScaledDotProductAttentionConfig{}
	}
	var a graph.AttentionOptions
	switch {
	case o.Mask != nil || o.Bias != nil || o.QuerySeqLen != nil || o.KeyValueSeqLen != nil:
		return a, errors.Wrapf(compute.ErrNotImplemented, "%s: attention with a mask, a bias or lengths is computed by parts", Name)
	case math.IsNaN(o.Scale) || math.IsInf(o.Scale, 0):
		return a, errors.WithStack(fmt.Errorf("%s: %w: attention with a scale of %v", Name, ErrArgument, o.Scale))
	}
	if s := q.Shape(); s.Rank() == 4 && (s.Size() == 0 || s.Dims[3] > mostHead) {
		return a, errors.Wrapf(compute.ErrNotImplemented, "%s: attention of %v is computed by parts", Name, s)
	}
	return graph.AttentionOptions{HeadsBehind: layout == compute.AttentionAxesLayoutBSHD, Causal: o.Causal, Scale: o.Scale}, nil
}

// FusedScaledDotProductAttention implements [compute.FusedOps]. Its state is the logarithm
// of each query's sum.
func (f *function) FusedScaledDotProductAttention(query, key, value compute.Value, layout compute.AttentionAxesLayout, options *compute.ScaledDotProductAttentionConfig) (output compute.Value, states []compute.Value, err error) {
	in, err := f.operands(query, key, value)
	if err != nil {
		return nil, nil, err
	}
	a, err := attention(layout, options, in[0])
	if err != nil {
		return nil, nil, err
	}
	out, sums, err := f.graph.Attention(in[0], in[1], in[2], a)
	if err != nil {
		return nil, nil, errors.WithStack(err)
	}
	return out, []compute.Value{sums}, nil
}

// FusedScaledDotProductAttentionVJP implements [compute.FusedOps].
func (f *function) FusedScaledDotProductAttentionVJP(query, key, value compute.Value, layout compute.AttentionAxesLayout, options *compute.ScaledDotProductAttentionConfig, output compute.Value, states []compute.Value, dOutput compute.Value) (dQuery, dKey, dValue compute.Value, err error) {
	if len(states) != 1 {
		return nil, nil, nil, errors.WithStack(fmt.Errorf("%s: %w: the gradients of an attention take 1 state of it, not %d", Name, ErrArgument, len(states)))
	}
	in, err := f.operands(query, key, value, output, states[0], dOutput)
	if err != nil {
		return nil, nil, nil, err
	}
	a, err := attention(layout, options, in[0])
	if err != nil {
		return nil, nil, nil, err
	}
	return three(f.graph.AttentionBackward(in[0], in[1], in[2], in[3], in[4], in[5], a))
}
