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

// attention says how an attention is computed as one operation, and what it masks. One with
// a bias, or a mask that is no conjunction of simple ones, is not implemented: GoMLX takes
// it apart, and its gradients. QuantizedMatmuls is a hint that changes nothing.
func (f *function) attention(layout compute.AttentionAxesLayout, o *compute.ScaledDotProductAttentionConfig, q, k graph.Value) (a graph.AttentionOptions, m masking, err error) {
	if o == nil {
		o = &compute.ScaledDotProductAttentionConfig{}
	}
	a = graph.AttentionOptions{HeadsBehind: layout == compute.AttentionAxesLayoutBSHD, Causal: o.Causal, Scale: o.Scale}
	s := q.Shape()
	switch {
	case o.Bias != nil:
		return a, m, byParts("a bias")
	case math.IsNaN(o.Scale) || math.IsInf(o.Scale, 0):
		return a, m, errors.WithStack(fmt.Errorf("%s: %w: attention with a scale of %v", Name, ErrArgument, o.Scale))
	case s.Rank() != 4 || k.Shape().Rank() != 4:
		return a, m, nil // the operation says what is wrong
	case s.Size() == 0 || s.Dims[3] > mostHead:
		return a, m, byParts("queries of %v", s)
	}
	if m, err = f.masks(layout, o, q, k); err != nil {
		return a, m, err
	}
	a.Causal = m.causal
	if len(m.keys) > 0 {
		if s.Dims[3] > mostMasked {
			return a, m, byParts("a mask and heads of %d elements", s.Dims[3])
		}
		if a.Scale == 0 { // heads get more elements
			a.Scale = 1 / math.Sqrt(float64(s.Dims[3]))
		}
	}
	return a, m, nil
}

// FusedScaledDotProductAttention implements [compute.FusedOps]. Its state is the logarithm
// of each query's sum.
func (f *function) FusedScaledDotProductAttention(query, key, value compute.Value, layout compute.AttentionAxesLayout, options *compute.ScaledDotProductAttentionConfig) (output compute.Value, states []compute.Value, err error) {
	in, err := f.operands(query, key, value)
	if err != nil {
		return nil, nil, err
	}
	a, m, err := f.attention(layout, options, in[0], in[1])
	if err != nil {
		return nil, nil, err
	}
	given, err := f.maskedOperands(m, a, in[0], in[1], in[2])
	if err != nil {
		return nil, nil, err
	}
	out, sums, err := f.graph.Attention(given[0], given[1], given[2], a)
	if err != nil {
		return nil, nil, errors.WithStack(err)
	}
	b := &maker{Graph: f.graph}
	out = b.seeing(m, a, b.cut(out, in[0].Shape().Dims[3]), sums)
	return out, []compute.Value{sums}, errors.WithStack(b.err)
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
	a, m, err := f.attention(layout, options, in[0], in[1])
	if err != nil {
		return nil, nil, nil, err
	}
	given, err := f.maskedOperands(m, a, in[0], in[1], in[2])
	if err != nil {
		return nil, nil, nil, err
	}
	out, sums, dout := in[3], in[4], in[5]
	b := &maker{Graph: f.graph}
	dout = b.seeing(m, a, dout, sums)
	if len(m.keys) > 0 {
		more := given[0].Shape().Dims[3] - in[0].Shape().Dims[3]
		out, dout = b.padded(out, more, 0), b.padded(dout, more, 0)
	}
	if b.err != nil {
		return nil, nil, nil, errors.WithStack(b.err)
	}
	dq, dk, dv, err := f.graph.AttentionBackward(given[0], given[1], given[2], out, sums, dout, a)
	if err != nil {
		return nil, nil, nil, errors.WithStack(err)
	}
	each := in[0].Shape().Dims[3]
	dq, dk, dv = b.cut(dq, each), b.cut(dk, each), b.cut(dv, each)
	return three(dq, dk, dv, b.err)
}
