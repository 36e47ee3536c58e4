package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
)

// ErrArgument says that a step or an option cannot be what was asked for.
var ErrArgument = errs.ErrArgument

// ErrNotFinite says that a loss is NaN or infinite.
var ErrNotFinite = errors.New("not finite")

// Scaler scales the loss of a step that computes in f16, whose small gradients are zero
// otherwise, and adapts: the scale grows when all gradients were finite for a while, and
// shrinks when one was not, and that step updates nothing. It does what PyTorch's
// GradScaler does, inside the graph: the host is not asked.
//
// A graph begins with its state as a parameter of shape [ScalerShape], multiplies the loss,
// or the gradient that the backward pass begins with, by [Scaler.Scale], passes gradients
// through [Scaler.Unscale] before the optimizer, and chooses by the flag that it returns
// between new and old weights ([graph.Graph.Where]), and so for the optimizer's state. To a
// graph that was built before, this cannot be added: nothing in it says what is the loss
// and what are gradients. (For GoMLX, gomlx/scaling wraps the optimizer that builds it.)
//
// With Initial, Growth and Backoff 1, nothing is scaled, and steps without finite gradients
// are still left out: of use in bf16 and float32, too.
type Scaler struct {
	Initial  float64 // the first scale. Default: 65536
	Growth   float64 // what the scale is multiplied by, at least 1. Default: 2
	Backoff  float64 // what it is multiplied by if a gradient is not finite, above 0 and at most 1. Default: 0.5
	Interval int     // steps in a row with finite gradients after which the scale grows. Default: 2000
}

// ScalerShape is the shape of a scaler's state: the scale, how many steps in a row were
// good, and how many were left out.
var ScalerShape = graph.MakeShape(dtype.F32, 3)

// The scale stays between these, so that its reciprocal is a normal number.
const (
	LeastScale = 0x1p-100
	MostScale  = 0x1p100
)

// WithDefaults is the scaler with its defaults filled in. It fails with [ErrArgument].
func (s Scaler) WithDefaults() (Scaler, error) {
	orElse := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	orElse(&s.Initial, 65536)
	orElse(&s.Growth, 2)
	orElse(&s.Backoff, 0.5)
	if s.Interval == 0 {
		s.Interval = 2000
	}
	if !(s.Initial >= LeastScale && s.Initial <= MostScale && s.Growth >= 1 && s.Growth <= MostScale && s.Backoff > 0 && s.Backoff <= 1 && s.Interval > 0 && s.Interval < 1<<24) {
		return s, fmt.Errorf("train: %w: a scaler that begins with %v, grows by %v every %d steps, and backs off by %v", ErrArgument, s.Initial, s.Growth, s.Interval, s.Backoff)
	}
	return s, nil
}

// State is what the state is before the first step, as [step.Memory.Put] takes it.
func (s Scaler) State() ([]byte, error) {
	s, err := s.WithDefaults()
	if err != nil {
		return nil, err
	}
	return append(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(s.Initial))), make([]byte, 8)...), nil
}

// Scale returns the scale: a float32.
func (s Scaler) Scale(g *graph.Graph, state graph.Value) (graph.Value, error) {
	b := &builder{Graph: g}
	if err := checkState(state); err != nil {
		return graph.Value{}, err
	}
	return b.reshape(b.at(state, 0, 0)), b.err
}

func checkState(state graph.Value) error {
	if !state.Shape().Equal(ScalerShape) {
		return fmt.Errorf("train: %w: the state of a scaler is %v, not %v", ErrArgument, ScalerShape, state.Shape())
	}
	return nil
}

// Unscale divides gradients by the scale. finite, a bool, says whether all of their
// elements are finite; next is the new state. Gradients of 16 bits become float32.
func (s Scaler) Unscale(g *graph.Graph, state graph.Value, gradients ...graph.Value) (unscaled []graph.Value, finite, next graph.Value, err error) {
	s, err = s.WithDefaults()
	if err == nil {
		err = checkState(state)
	}
	if err == nil && len(gradients) == 0 {
		err = fmt.Errorf("train: %w: no gradients to unscale", ErrArgument)
	}
	if err != nil {
		return nil, graph.Value{}, graph.Value{}, err
	}
	b := &builder{Graph: g}
	num := func(v float64) graph.Value { return b.number(v, dtype.F32) }
	scale, good, skipped := b.reshape(b.at(state, 0, 0)), b.reshape(b.at(state, 0, 1)), b.reshape(b.at(state, 0, 2))
	inverse := b.binary(graph.Div, num(1), scale)
	for i, v := range gradients {
		all := b.unary(graph.IsFinite, v)
		if b.err == nil && v.Shape().Rank() > 0 {
			all = b.reduce(graph.ReduceAnd, all)
		}
		if i > 0 {
			all = b.binary(graph.And, finite, all)
		}
		finite = all
		t := dtype.F32
		if v.Shape().Type == dtype.F64 {
			t = dtype.F64
		}
		unscaled = append(unscaled, b.binary(graph.Mul, b.convert(v, t), b.convert(inverse, t)))
	}
	good = b.binary(graph.Add, good, num(1))
	grows := b.binary(graph.GreaterOrEqual, good, num(float64(s.Interval)))
	grown := b.binary(graph.Min, b.binary(graph.Mul, scale, num(s.Growth)), num(MostScale))
	shrunk := b.binary(graph.Max, b.binary(graph.Mul, scale, num(s.Backoff)), num(LeastScale))
	next = b.join(0,
		b.reshape(b.where(finite, b.where(grows, grown, scale), shrunk), 1),
		b.reshape(b.where(b.binary(graph.And, finite, b.unary(graph.Not, grows)), good, num(0)), 1),
		b.reshape(b.where(finite, num(0), b.binary(graph.Add, skipped, num(1))), 1))
	return unscaled, finite, next, b.err
}
