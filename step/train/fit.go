package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/plan"
)

// Fitted is a micro-batch that fits a budget.
type Fitted struct {
	Step       Step // for that micro-batch
	Micro      int  // samples of a micro-batch
	Accumulate int  // micro-batches of a step
	Bytes      int64
	Plans      int // how many were made to find it
	Runs       int // how many steps were run to check it
}

// Fit finds the largest micro-batch with which a step on a batch of so many samples fits
// o.Compile.Budget, and how many micro-batches are then one step. build makes the graph
// for a micro-batch; sizes are tried that the batch is a multiple of. All that is decided
// by planning, with everything that a plan may do: compute again, and send to the host if
// o.Compile.Link is set. o.Accumulate is not asked.
//
// What was found is then checked by a step on zeros. If the device has less memory than
// the budget, the next smaller size is tried, and so on: out of memory is no error before
// the last. If no size fits, it fails with the [*plan.ImpossibleError] of one sample, which
// says what the least is and what it is for.
func Fit(ctx context.Context, build func(micro int) (Step, error), batch int, exec step.Executor, o Options) (*Fitted, error) {
	if batch < 1 || o.Compile.Budget <= 0 {
		return nil, fmt.Errorf("train: %w: a batch of %d samples within %d bytes: both are at least 1", ErrArgument, batch, o.Compile.Budget)
	}
	var sizes []int // descending
	for n := batch; n > 0; n-- {
		if batch%n == 0 {
			sizes = append(sizes, n)
		}
	}
	plans := 0
	try := func(micro int) (*Fitted, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		plans++
		s, err := build(micro)
		if err != nil {
			return nil, fmt.Errorf("train: the graph for %d samples: %w", micro, err)
		}
		d, err := s.divide(batch/micro, o.Autocast)
		if err != nil {
			return nil, err
		}
		bytes, err := d.within(&s, o.Compile, func(g *graph.Graph, o step.Options) (int64, error) {
			p, err := step.Plan(g, exec, o)
			if err != nil {
				return 0, err
			}
			return p.Bytes, nil
		})
		return &Fitted{Step: s, Micro: micro, Accumulate: batch / micro, Bytes: bytes}, err
	}
	// The whole batch has no sums of gradients; of the others, larger ones take more.
	found, err := try(batch)
	first := 0
	if errors.Is(err, plan.ErrBudget) && len(sizes) > 1 {
		low, high := 1, len(sizes)-1
		if found, err = try(sizes[high]); err == nil {
			for low < high {
				middle := (low + high) / 2
				f, tryErr := try(sizes[middle])
				switch {
				case tryErr == nil:
					found, high = f, middle
				case errors.Is(tryErr, plan.ErrBudget):
					low = middle + 1
				default:
					return nil, tryErr
				}
			}
			first = high
		}
	}
	if errors.Is(err, plan.ErrBudget) {
		return nil, fmt.Errorf("train: a batch of %d does not fit %s, not even in micro-batches of one: %w", batch, units.Bytes(o.Compile.Budget), err)
	} else if err != nil {
		return nil, err
	}
	for runs := 1; ; runs++ {
		err := found.check(ctx, exec, o)
		if err == nil {
			found.Plans, found.Runs = plans, runs
			return found, nil
		}
		if !errors.Is(err, device.ErrOutOfMemory) {
			return nil, err
		}
		if first++; first == len(sizes) {
			return nil, fmt.Errorf("train: a batch of %d is planned within %s, which the device has not: %w", batch, units.Bytes(o.Compile.Budget), err)
		}
		if found, err = try(sizes[first]); err != nil {
			return nil, err
		}
	}
}

// check runs a step on zeros.
func (f *Fitted) check(ctx context.Context, exec step.Executor, o Options) (err error) {
	o.Accumulate = f.Accumulate
	r, err := Open(f.Step, exec, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for _, s := range f.Step.State {
		if err := r.Put(s.Param, make([]byte, s.Param.Shape().Bytes())); err != nil {
			return err
		}
	}
	_, err = r.Run(ctx, func(int) (batch []*step.Tensor, err error) {
		for _, p := range f.Step.Batch {
			t, err := r.Memory().Put(make([]byte, p.Shape().Bytes()), p.Shape())
			if err != nil {
				return batch, err
			}
			batch = append(batch, t)
		}
		return batch, nil
	})
	if errors.Is(err, ErrNotFinite) {
		return nil // zeros may well give no number
	}
	return err
}
