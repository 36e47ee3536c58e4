package train

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/saved"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/plan"
)

// ErrClosed: the runner or the buckets were closed.
var ErrClosed = errs.ErrClosed

// Options say how a step is run.
type Options struct {
	// Compile is how graphs are compiled; its Donate is not asked. Its Budget counts
	// everything that the runner has on the device at once: state, sums of gradients, one
	// micro-batch, and what lies between. Its Seconds are those of tasks of either graph. Its
	// Ranks have batches of their own ([Step.OverRanks]), unless they do any of the step
	// together already, as those of package spmd do: such a step is run as it is.
	Compile step.Options

	// Accumulate is how many micro-batches a step is made of. Their gradients are added up
	// in float32, and weights are updated once, by the mean. Default: 1.
	Accumulate int

	// Share is what the ranks of Compile.Ranks share, where updates go element by element,
	// as Adam's does. Results differ by no more than the order of sums. Default:
	// [ShareNothing].
	Share Sharing

	// Average is the floating-point type in which ranks average gradients of a wider one: in
	// bfloat16, half as much travels, and the mean has its 8 bits. Default: 0, their own.
	Average dtype.DType

	// Autocast is the type that graphs partly compute in: see [autocast.Graph]. Default: 0,
	// they are as they were built.
	Autocast dtype.DType
}

// Runner runs the steps of a training. It owns the state, which stays on the device. It is
// safe for concurrent use; steps follow one another.
type Runner struct {
	s             Step
	o             Options
	d             *division
	micro, update *step.Executable
	memory        *step.Memory
	ownMemory     bool
	bytes         int64
	shares        []*share // of state of which other ranks have the rest

	mu     sync.Mutex
	state  []*step.Tensor // nil until it was put, or if it was lost
	sums   []*step.Tensor
	first  *step.Tensor
	steps  int
	closed bool
}

// Result is what a step tells.
type Result struct {
	Step    int     // which one it was, from 1
	Loss    float64 // the mean over its micro-batches
	Skipped bool    // a gradient was not finite, and the [Scaler] left the update out
	Scale   float64 // for the next step; 0 without a scaler
}

// Open compiles a step. It fails with [ErrArgument] if the step cannot be right, and with a
// [*plan.ImpossibleError] if it does not fit its budget. State is put with [Runner.Put]
// before the first step.
func Open(s Step, exec step.Executor, o Options) (_ *Runner, err error) {
	if o.Accumulate < 0 || o.Share > ShareWeights {
		return nil, fmt.Errorf("train: %w: a step of %d micro-batches, and sharing %d", ErrArgument, o.Accumulate, o.Share)
	}
	o.Accumulate = max(o.Accumulate, 1)
	divided := &over{Step: s, shares: make([]*share, len(s.State))}
	split := s.split()
	if split && o.Share != ShareNothing {
		return nil, fmt.Errorf("train: %w: ranks do some of graph %q together already, and cannot share %v beside", ErrArgument, s.Graph.Name(), o.Share)
	}
	if c := o.Compile.Ranks; c != nil && s.SplitOver > 0 && c.Size() != s.SplitOver {
		return nil, fmt.Errorf("train: %w: graph %q is split over %d ranks, and there are %d", ErrArgument, s.Graph.Name(), s.SplitOver, c.Size())
	}
	if c := o.Compile.Ranks; c != nil && !split {
		if divided, err = s.overRanks(c.Size(), c.Rank(), o); err != nil {
			return nil, err
		}
		if o.Share != ShareNothing && c.Size() > 1 && !divided.shared {
			return nil, fmt.Errorf("train: %w: no update goes element by element, of values of at least %d elements, so that ranks have nothing to share", ErrArgument, leastShare*c.Size())
		}
	}
	d, err := divided.divide(o.Accumulate, o.Autocast)
	if err != nil {
		return nil, err
	}
	r := &Runner{shares: divided.shares, s: s, o: o, d: d, memory: o.Compile.Memory, state: make([]*step.Tensor, len(s.State)), sums: make([]*step.Tensor, len(d.sums))}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.memory == nil {
		if r.memory, err = step.OpenMemory(exec.Device(), nil); err != nil {
			return nil, err
		}
		r.ownMemory = true
	}
	o.Compile.Memory = r.memory
	r.bytes, err = d.within(&divided.Step, o.Compile, func(g *graph.Graph, o step.Options) (int64, error) {
		x, err := step.Compile(g, exec, o)
		if err != nil {
			return 0, err
		}
		if g == d.update {
			r.update = x
		} else {
			r.micro = x
		}
		return x.PeakBytes(), nil
	})
	if err != nil {
		return nil, err
	}
	for i, s := range d.sums {
		if r.sums[i], err = r.memory.New(s); err != nil {
			return nil, fmt.Errorf("train: sum of gradient %d: %w", i, err)
		}
	}
	if d.update != nil {
		r.first, err = r.memory.New(graph.MakeShape(dtype.Bool))
	}
	return r, err
}

// within compiles the graphs of a step for a budget that counts what both have once. It
// returns the bytes of all.
func (d *division) within(s *Step, o step.Options, compile func(g *graph.Graph, o step.Options) (int64, error)) (int64, error) {
	budget, beside := o.Budget, int64(0) // the update's own bytes
	if d.update != nil {
		o.Donate = make([]bool, len(d.update.Parameters()))
		for _, i := range d.updateNext {
			o.Donate[slices.Index(d.updateState, i)] = true
		}
		bytes, err := compile(d.update, o)
		if e := (*plan.ImpossibleError)(nil); errors.As(err, &e) {
			o.Budget = e.Found // what both need is told below
			bytes, err = compile(d.update, o)
		}
		if err != nil {
			return 0, err
		}
		beside = bytes - d.shared
	}
	o.Donate = make([]bool, len(d.micro.Parameters()))
	for _, i := range d.microNext {
		o.Donate[len(s.Batch)+i] = true
	}
	for i := range d.sums {
		o.Donate[len(s.Batch)+len(s.State)+i] = true
	}
	if budget > 0 {
		o.Budget = max(budget-beside, 1)
	}
	bytes, err := compile(d.micro, o)
	if e := (*plan.ImpossibleError)(nil); errors.As(err, &e) && beside > 0 {
		whole := *e
		whole.Budget, whole.Found, whole.Least = budget, e.Found+beside, e.Least+beside
		return 0, fmt.Errorf("train: graph %q and its update: %w", s.Graph.Name(), &whole)
	}
	return bytes + beside, err
}

// PeakBytes is the device memory that the runner has in use at most, with one
// micro-batch, as planned.
func (r *Runner) PeakBytes() int64 { return r.bytes }

// StateBytes is how much of [Runner.PeakBytes] is the state, on each of so many ranks that
// share as the runner's do.
func (r *Runner) StateBytes(ranks int) (bytes int64) {
	for i, s := range r.s.State {
		shape := s.Param.Shape()
		if s := r.shares[i]; s != nil && ranks > 1 && s.elements >= ranks*leastShare {
			shape = (&share{s.elements, (s.elements + ranks - 1) / ranks}).of(shape)
		}
		bytes += shape.Bytes()
	}
	return bytes
}

// Executables are what runs each micro-batch, and what updates the weights: nil if that is
// part of the first.
func (r *Runner) Executables() (micro, update *step.Executable) { return r.micro, r.update }

// Memory is what makes tensors for batches.
func (r *Runner) Memory() *step.Memory { return r.memory }

// Put gives a parameter of the state its elements, which are copied; a rank that has a share
// takes that.
func (r *Runner) Put(param graph.Value, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, err := r.find(param)
	if err != nil {
		return err
	}
	shape := param.Shape()
	if int64(len(data)) != shape.Bytes() {
		return fmt.Errorf("train: %w: %s takes %d bytes, not %d", ErrArgument, describe(param), shape.Bytes(), len(data))
	}
	if s := r.shares[i]; s != nil {
		shape, data = s.of(shape), s.cut(data, r.o.Compile.Ranks.Rank())
	}
	return r.put(i, shape, data)
}

// put gives a parameter of the state what this rank has of it.
func (r *Runner) put(i int, shape graph.Shape, data []byte) (err error) {
	if t := r.state[i]; t != nil {
		return t.Write(data)
	}
	r.state[i], err = r.memory.Put(data, shape)
	return err
}

// Get copies the elements of a parameter of the state, as they are after the last step. If
// ranks share anything, all of them call it, for the same parameters.
func (r *Runner) Get(param graph.Value, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, err := r.find(param)
	if err != nil {
		return err
	}
	switch n := param.Shape().Bytes(); {
	case r.state[i] == nil:
		return r.missing(i)
	case int64(len(data)) != n:
		return fmt.Errorf("train: %w: %s has %d bytes, not %d", ErrArgument, describe(param), n, len(data))
	case r.shares[i] != nil:
		return r.gather(r.shares[i], r.state[i], data)
	}
	return r.state[i].Read(data)
}

// gather reads what ranks have shares of.
func (r *Runner) gather(s *share, own *step.Tensor, data []byte) (err error) {
	c := r.o.Compile.Ranks
	whole, err := r.memory.New(graph.MakeShape(own.Shape().Type, s.each*c.Size()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, whole.Free()) }()
	stream, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	err = errors.Join(c.AllGather(stream, parallel.Part{Recv: whole.Ptr(), Send: own.Ptr(), N: own.Shape().Bytes()}), stream.Synchronize(), stream.Close())
	if err != nil {
		return err
	}
	all := make([]byte, whole.Shape().Bytes())
	err = whole.Read(all)
	copy(data, all)
	return err
}

func (r *Runner) find(param graph.Value) (int, error) {
	i := slices.IndexFunc(r.s.State, func(s State) bool { return s.Param == param })
	switch {
	case r.closed:
		return 0, fmt.Errorf("train: graph %q: %w", r.s.Graph.Name(), ErrClosed)
	case i < 0:
		return 0, fmt.Errorf("train: %w: %s is not of the state", ErrArgument, describe(param))
	}
	return i, nil
}

func (r *Runner) missing(i int) error {
	return fmt.Errorf("train: %w: state %q was never put, or was lost by a step that failed", ErrArgument, saved.Name(r.s.State[i].Param))
}

// Run runs a step. batch makes the tensors of a micro-batch, one for each of Batch, and is
// called for each, from 0; Run frees them. ctx is asked before each micro-batch.
//
// A loss that is not finite is an [ErrNotFinite] that names the step, beside the result.
// The state is then that after the step: what it was before, if a [Scaler] left the update
// out. If a step fails otherwise, state that it was about to replace may be lost, and has
// to be put again.
func (r *Runner) Run(ctx context.Context, batch func(micro int) ([]*step.Tensor, error)) (Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return Result{}, fmt.Errorf("train: graph %q: %w", r.s.Graph.Name(), ErrClosed)
	}
	for i, t := range r.state {
		if t == nil {
			return Result{}, r.missing(i)
		}
	}
	result := Result{Step: r.steps + 1}
	for i := range r.o.Accumulate {
		if err := ctx.Err(); err != nil {
			return Result{}, fmt.Errorf("train: step %d: before micro-batch %d of %d: %w", result.Step, i, r.o.Accumulate, err)
		}
		loss, err := r.runMicro(i, batch)
		if err != nil {
			return Result{}, fmt.Errorf("train: step %d: micro-batch %d of %d: %w", result.Step, i, r.o.Accumulate, err)
		}
		result.Loss += loss / float64(r.o.Accumulate)
	}
	if r.update != nil {
		if err := r.runUpdate(); err != nil {
			return Result{}, fmt.Errorf("train: step %d: update: %w", result.Step, err)
		}
	}
	r.steps++
	if r.s.Scale != (graph.Value{}) {
		i, _ := r.find(r.s.Scale)
		data := make([]byte, ScalerShape.Bytes())
		if err := r.state[i].Read(data); err != nil {
			return Result{}, err
		}
		result.Scale, result.Skipped = float(data), float(data[8:]) > 0
	}
	if math.IsNaN(result.Loss) || math.IsInf(result.Loss, 0) {
		return result, fmt.Errorf("train: step %d: the loss is %v: %w", result.Step, result.Loss, ErrNotFinite)
	}
	return result, nil
}

func float(data []byte) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
}

// Measure times the tasks of a micro-batch, for [step.Executable.Predict], and leaves the
// state as it is. All ranks call it.
func (r *Runner) Measure(ctx context.Context, batch func(micro int) ([]*step.Tensor, error)) (times *step.Times, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("train: graph %q: %w", r.s.Graph.Name(), ErrClosed)
	}
	for i, t := range r.state {
		if t == nil {
			return nil, r.missing(i)
		}
	}
	err = r.withBatch(0, batch, func(inputs []*step.Tensor) error {
		times, err = r.micro.Measure(ctx, inputs)
		return err
	})
	return times, err
}

// withBatch calls fn with what a micro-batch reads.
func (r *Runner) withBatch(i int, batch func(int) ([]*step.Tensor, error), fn func(inputs []*step.Tensor) error) error {
	if r.first != nil && i < 2 {
		if err := r.first.Write([]byte{byte(1 - i)}); err != nil {
			return err
		}
	}
	tensors, err := batch(i)
	switch {
	case err != nil:
	case len(tensors) != len(r.s.Batch):
		err = fmt.Errorf("%w: %d tensors for %d parameters of a batch", ErrArgument, len(tensors), len(r.s.Batch))
	default:
		inputs := slices.Concat(tensors, r.state, r.sums)
		if r.first != nil {
			inputs = append(inputs, r.first)
		}
		err = fn(inputs)
	}
	for _, t := range tensors {
		if t != nil {
			err = errors.Join(err, t.Free())
		}
	}
	return err
}

// runMicro runs a micro-batch, and returns its loss.
func (r *Runner) runMicro(i int, batch func(int) ([]*step.Tensor, error)) (loss float64, err error) {
	err = r.withBatch(i, batch, func(inputs []*step.Tensor) error {
		loss, err = r.run(inputs)
		return err
	})
	return loss, err
}

// run runs a micro-batch on its inputs.
func (r *Runner) run(inputs []*step.Tensor) (loss float64, err error) {
	donate := make([]bool, len(inputs))
	for _, k := range r.d.microNext {
		donate[len(r.s.Batch)+k] = true
	}
	for k := range r.sums {
		donate[len(r.s.Batch)+len(r.state)+k] = true
	}
	out, err := r.micro.Run(context.Background(), inputs, donate)
	if err != nil {
		r.forget()
		return 0, err
	}
	copy(r.sums, out[1:])
	for k, s := range r.d.microNext {
		r.state[s] = out[1+len(r.sums)+k]
	}
	data := make([]byte, 4)
	err = errors.Join(out[0].Read(data), out[0].Free())
	return float(data), err
}

func (r *Runner) runUpdate() error {
	var inputs []*step.Tensor
	donate := make([]bool, len(r.d.updateState)+len(r.sums))
	for k, s := range r.d.updateState {
		inputs = append(inputs, r.state[s])
		donate[k] = slices.Contains(r.d.updateNext, s)
	}
	out, err := r.update.Run(context.Background(), append(inputs, r.sums...), donate)
	if err != nil {
		r.forget()
		return err
	}
	for k, s := range r.d.updateNext {
		r.state[s] = out[k]
	}
	return nil
}

// forget drops tensors that a run that failed was given.
func (r *Runner) forget() {
	for i, t := range r.state {
		if t != nil && t.Freed() {
			r.state[i] = nil
		}
	}
	for i, t := range r.sums {
		if t.Freed() {
			if fresh, err := r.memory.New(r.d.sums[i]); err == nil {
				r.sums[i] = fresh
			}
		}
	}
}

// Close frees what the runner has. A second Close does nothing.
func (r *Runner) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	var all []error
	for _, x := range []*step.Executable{r.micro, r.update} {
		if x != nil {
			all = append(all, x.Close())
		}
	}
	for _, t := range slices.Concat(r.state, r.sums, []*step.Tensor{r.first}) {
		if t != nil {
			all = append(all, t.Free())
		}
	}
	if r.ownMemory {
		all = append(all, r.memory.Close())
	}
	return errors.Join(all...)
}
