package gomlx

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/step/plan"
	"github.com/pinion-gpu/pinion/step/train"
)

// Fitted is a micro-batch that fits a budget.
type Fitted struct {
	train.Found       // samples of a micro-batch, and micro-batches of a step
	Bytes       int64 // of the step that takes most, as planned
}

// Fit finds the largest micro-batch with which training steps on batches of so many samples
// fit o.Budget, and how many micro-batches are then one step. Sizes are tried that the
// batch is a multiple of.
//
// training trains one step on a backend, from the beginning: it makes a store and a
// trainer, which accumulates gradients if accumulate is above 1
// (train.Trainer.AccumulateGradients), and calls TrainStep accumulate times, with micro
// samples each; what is in them does not matter. For each size that is tried, it is called
// with a backend that plans graphs, runs none, takes no memory, and has zeros for results.
// Then it is called with a backend that runs the size which was found. If the device has
// less memory than the budget, the next smaller size is tried, and so on: out of memory is
// no error before the last.
//
// If no size fits, it fails with the [*plan.ImpossibleError] of one sample, which says what
// the least is and what it is for; and with [ErrArgument] if batch or budget are below 1,
// or o has Ranks, who need one size for all.
// o.Compile is asked for the step that is run. Errors of training end the search.
func Fit(ctx context.Context, o Options, batch int, training func(backend *Backend, micro, accumulate int) error) (_ *Fitted, err error) {
	if batch < 1 || o.Budget <= 0 {
		return nil, fmt.Errorf("%s: %w: a batch of %d samples within %d bytes: both are at least 1", Name, ErrArgument, batch, o.Budget)
	}
	if o.Ranks != nil {
		return nil, fmt.Errorf("%s: %w: ranks need one size for all: look for it without Ranks", Name, ErrArgument)
	}
	if o.On == nil {
		dev, err := device.Open(cmp.Or(o.Device, "auto"))
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, dev.Close()) }()
		o.On = dev
	}
	bytes := map[int]int64{}
	on := func(b *Backend, micro int) error {
		defer b.Finalize()
		return training(b, micro, batch/micro)
	}
	planned := func(micro int) error {
		b, err := Open(o)
		if err == nil {
			b.onPlan = func(p *plan.Plan) { bytes[micro] = max(bytes[micro], p.Bytes) }
			err = on(b, micro)
		}
		return err
	}
	run := func(micro int) error {
		b, err := Open(o)
		if err == nil {
			err = on(b, micro)
		}
		return err
	}
	found, err := train.Search(ctx, batch, planned, run)
	if err != nil && found.Runs == 0 && errors.Is(err, plan.ErrBudget) {
		err = fmt.Errorf("%s: a batch of %d does not fit %s, not even in micro-batches of one: %w", Name, batch, units.Bytes(o.Budget), err)
	}
	if err != nil {
		return nil, err
	}
	return &Fitted{found, bytes[found.Micro]}, nil
}
