package models

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/spmd"
	"github.com/pinion-gpu/pinion/step/train"
)

// Model is a graph with what runs it again and again.
type Model struct {
	Graph   *graph.Graph
	Donate  []bool // for [step.Options] and [step.Executable.Run]
	Next    []int  // for each parameter, the result that takes its place in the next step; -1: it stays
	Lend    []bool // for [step.Options]: results that are no parameters of the next step
	Batch   []int  // parameters that are another in each step of a user's: tokens, images, what they should give
	Weights int64  // elements of all weights

	outputs   []graph.Value
	gradients []graph.Value // of the weights, before ranks average them
	initial   []initial
}

// Training is the step of a model with an optimizer, as package train runs it. The model
// must not average gradients of ranks itself.
func (m *Model) Training() train.Step {
	s := train.Step{Graph: m.Graph, Loss: m.outputs[0], Gradients: m.gradients}
	for i, p := range m.Graph.Parameters() {
		switch next := m.Next[i]; {
		case slices.Contains(m.Batch, i):
			s.Batch = append(s.Batch, p)
		case next >= 0:
			s.State = append(s.State, train.State{Param: p, Next: m.outputs[next]})
		default:
			s.State = append(s.State, train.State{Param: p})
		}
	}
	return s
}

// Megatron are the weights of the blocks of a transformer's step, as ranks split them in
// Megatron-LM: what comes first in attention and perceptron by columns, what comes second
// by rows.
func Megatron(s *train.Step) (splits []spmd.Split) {
	for _, st := range s.State {
		switch _, kind, _ := strings.Cut(st.Param.Node().Attr.(*graph.Input).Name, ": "); kind {
		case "query", "key", "value", "gate", "up":
			splits = append(splits, spmd.Split{Value: st.Param, Axis: 1})
		case "out", "down", "offset up":
			splits = append(splits, spmd.Split{Value: st.Param, Axis: 0})
		}
	}
	return splits
}

// initial is how a parameter begins.
type initial struct {
	deviation float64 // of random numbers, evenly distributed around value
	value     float64
	below     int // integers from 0 to below, if it is not 0
}

var (
	zeros = initial{}
	ones  = initial{value: 1}
)

func random(deviation float64) initial { return initial{deviation: deviation} }
func integers(below int) initial       { return initial{below: below} }

// Start makes the parameters as they are at first, on the device of the executor: the
// same for a seed on every device. The caller frees them. It takes device memory for them
// alone.
func (m *Model) Start(ctx context.Context, exec step.Executor, memory *step.Memory, seed uint64) ([]*step.Tensor, error) {
	b := &builder{g: graph.New(m.Graph.Name() + ": start"), full: dtype.F32, narrow: dtype.F32}
	if err := b.attempt(func() { b.start(m, seed) }); err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	x, err := step.Compile(b.g, exec, step.Options{Memory: memory})
	if err != nil {
		return nil, err
	}
	in, err := x.Run(ctx, nil, nil)
	return in, errors.Join(err, x.Close())
}

// start adds a value for each parameter of a model.
func (b *builder) start(m *Model, seed uint64) {
	var values []graph.Value
	for i, p := range m.Graph.Parameters() {
		s, how := p.Shape(), m.initial[i]
		if how.below == 0 && how.deviation == 0 {
			// Written rather than shared: each is memory of its own.
			values = append(values, b.ok(b.g.Unary(graph.Neg, b.filled(-how.value, s))))
			continue
		}
		var state []byte
		for _, word := range []uint64{seed, 0, uint64(i)} {
			state = binary.LittleEndian.AppendUint64(state, word)
		}
		_, bits, err := b.g.RNGBitGenerator(b.ok(b.g.Constant(state, graph.MakeShape(dtype.U64, 3))), s.With(dtype.U32))
		b.must(err)
		if how.below > 0 {
			v := b.binary(graph.Rem, bits, b.filled(float64(how.below), graph.MakeShape(dtype.U32)))
			values = append(values, b.as(s.Type, v))
			continue
		}
		// 24 bits are exact in float32.
		bits = b.binary(graph.ShiftRightLogical, bits, b.filled(8, graph.MakeShape(dtype.U32)))
		v := b.sub(b.times(b.as(dtype.F32, bits), 1.0/(1<<23)), b.number(1))
		v = b.add(b.times(v, how.deviation*math.Sqrt(3)), b.number(how.value))
		values = append(values, b.as(s.Type, v))
	}
	b.must(b.g.SetOutputs(values...))
}

// Session opens a session of a model for one step after the other, in which all but
// [Model.Batch] stays on the device. tensors are those of [Model.Start].
func (m *Model) Session(exec step.Executor, tensors []*step.Tensor) (*step.Session, error) {
	o := step.SessionOptions{Tensors: slices.Clone(tensors), State: map[int]int{}}
	for _, p := range m.Batch {
		o.Tensors[p] = nil
	}
	for p, result := range m.Next {
		if result >= 0 {
			o.State[result] = p
		}
	}
	return step.OpenSession(m.Graph, exec, o)
}

// Step runs a step, and puts what it makes of donated parameters in their place. The
// results are the caller's but for those; see [Model.Free].
func (m *Model) Step(ctx context.Context, x *step.Executable, in []*step.Tensor) ([]*step.Tensor, error) {
	out, err := x.Run(ctx, in, m.Donate)
	if err != nil {
		return nil, err
	}
	for i, k := range m.Next {
		if k >= 0 {
			in[i] = out[k]
		}
	}
	return out, nil
}

// Free frees the results of a step that are no parameters of the next.
func (m *Model) Free(results []*step.Tensor) error {
	var errs []error
	for k, t := range results {
		if m.Lend[k] {
			errs = append(errs, t.Free())
		}
	}
	return errors.Join(errs...)
}

// Loss is the first result of a training step.
func (m *Model) Loss(results []*step.Tensor) (float64, error) {
	s := results[0].Shape()
	data := make([]byte, s.Bytes())
	if err := results[0].Read(data); err != nil {
		return 0, err
	}
	switch {
	case s.Rank() == 0 && s.Type == dtype.F32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(data))), nil
	case s.Rank() == 0 && s.Type == dtype.F64:
		return math.Float64frombits(binary.LittleEndian.Uint64(data)), nil
	}
	return 0, fmt.Errorf("models: %w: %s has no loss, but %v", errs.ErrArgument, m.Graph.Name(), s)
}

// Optimizer is what a step does with the gradients.
type Optimizer uint8

// The optimizers.
const (
	None Optimizer = iota // gradients are results
	SGD                   // weights less LearningRate times their gradients
	Adam                  // Kingma and Ba, 2015, with the usual constants
)

// means says how ranks average gradients; nil: there is one.
func means(ranks bool, t dtype.DType) *graph.AllReduceOptions {
	if !ranks {
		return nil
	}
	return &graph.AllReduceOptions{Mean: true, Type: t}
}

// finish makes results of the loss and the gradients: the gradients, or new weights.
// Of ranks, they are the means of all.
func (b *builder) finish(loss graph.Value, o Optimizer, rate float64, means *graph.AllReduceOptions) {
	b.output(loss)
	b.differentiate()
	if rate == 0 {
		rate = 1e-3
	}
	var steps, first, second graph.Value
	if o == Adam {
		before := b.input("steps", graph.MakeShape(b.full), zeros)
		steps = b.add(before, b.number(1))
		b.replace(before, steps)
		first = b.sub(b.number(1), b.binary(graph.Pow, b.number(0.9), steps))
		second = b.sub(b.number(1), b.binary(graph.Pow, b.number(0.999), steps))
	}
	for _, w := range b.weights {
		g := b.wide(b.gradients[w])
		b.model.gradients = append(b.model.gradients, g)
		if means != nil {
			list, err := b.g.AllReduce(*means, g)
			b.must(err)
			g = list[0]
		}
		switch o {
		case None:
			b.output(g)
		case SGD:
			b.replace(w, b.sub(w, b.times(g, rate)))
		case Adam:
			name := w.Node().Attr.(*graph.Input).Name
			m, v := b.input(name+": mean", w.Shape(), zeros), b.input(name+": mean square", w.Shape(), zeros)
			mean := b.add(b.times(m, 0.9), b.times(g, 0.1))
			square := b.add(b.times(v, 0.999), b.times(b.mul(g, g), 0.001))
			root := b.add(b.unary(graph.Sqrt, b.binary(graph.Div, square, second)), b.number(1e-8))
			b.replace(w, b.sub(w, b.times(b.binary(graph.Div, b.binary(graph.Div, mean, first), root), rate)))
			b.replace(m, mean)
			b.replace(v, square)
		default:
			b.must(fmt.Errorf("%w: no optimizer has number %d", errs.ErrArgument, o))
		}
	}
}
