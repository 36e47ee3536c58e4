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

// Found is the division of a batch that [Search] found.
type Found struct {
	Micro      int // samples of a micro-batch
	Accumulate int // micro-batches of a step
	Plans      int // how many were made to find it
	Runs       int // how many steps were run to check it
}

// Search finds the largest micro-batch of those sizes that a batch of so many samples is a
// multiple of. plan says whether a step of micro-batches of a size fits: that it does not is
// a [plan.ErrBudget]. The whole batch is planned first, then sizes are halved. run then runs
// a step of the size that was found; if there is no memory for it, it fails with
// [device.ErrOutOfMemory] or [plan.ErrBudget], and the next smaller size that fits is run.
//
// It fails with the error of the smallest size if none fits, with any other error of plan or
// run, and with that of ctx, which is asked before each.
func Search(ctx context.Context, batch int, plan, run func(micro int) error) (Found, error) {
	if batch < 1 {
		return Found{}, fmt.Errorf("train: %w: a batch of %d samples", ErrArgument, batch)
	}
	var sizes []int // descending
	for n := batch; n > 0; n-- {
		if batch%n == 0 {
			sizes = append(sizes, n)
		}
	}
	found := Found{}
	fit := map[int]bool{} // of those that were planned
	try := func(i int) (fits bool, err error) {
		if err := ctx.Err(); err != nil || fit[i] {
			return fit[i], err
		}
		found.Plans++
		err = plan(sizes[i])
		fit[i] = err == nil
		return fit[i], err
	}
	// The whole batch has no sums of gradients; of the others, larger ones take more.
	at, last := 0, len(sizes)-1
	_, err := try(0)
	if lacksMemory(err) && last > 0 {
		low, high := 1, last
		var fits bool
		if fits, err = try(last); fits {
			for low < high {
				middle := (low + high) / 2
				switch fits, err := try(middle); {
				case fits:
					high = middle
				case lacksMemory(err):
					low = middle + 1
				default:
					return found, err
				}
			}
			at = high
		}
	}
	if err != nil {
		return found, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return found, err
		}
		found.Runs++
		found.Micro, found.Accumulate = sizes[at], batch/sizes[at]
		err := run(found.Micro)
		if err == nil || !lacksMemory(err) {
			return found, err
		}
		for fits := false; !fits; {
			if at++; at > last {
				return found, fmt.Errorf("train: a batch of %d is planned within its budget, which the device has not: %w", batch, err)
			}
			var planErr error
			if fits, planErr = try(at); !fits && !lacksMemory(planErr) {
				return found, planErr
			}
		}
	}
}

func lacksMemory(err error) bool {
	return errors.Is(err, plan.ErrBudget) || errors.Is(err, device.ErrOutOfMemory)
}

// Fitted is a micro-batch that fits a budget.
type Fitted struct {
	Found
	Step  Step // for that micro-batch
	Bytes int64
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
// says what the least is and what it is for. It fails with [ErrArgument] if o.Compile has
// Ranks, who need one size for all.
func Fit(ctx context.Context, build func(micro int) (Step, error), batch int, exec step.Executor, o Options) (*Fitted, error) {
	if batch < 1 || o.Compile.Budget <= 0 {
		return nil, fmt.Errorf("train: %w: a batch of %d samples within %d bytes: both are at least 1", ErrArgument, batch, o.Compile.Budget)
	}
	if o.Compile.Ranks != nil {
		return nil, fmt.Errorf("train: %w: ranks need one size for all: look for it without Ranks", ErrArgument)
	}
	fitted := map[int]*Fitted{}
	planned := func(micro int) error {
		s, err := build(micro)
		if err != nil {
			return fmt.Errorf("train: the graph for %d samples: %w", micro, err)
		}
		d, err := s.divide(batch/micro, o.Autocast)
		if err != nil {
			return err
		}
		bytes, err := d.within(&s, o.Compile, func(g *graph.Graph, o step.Options) (int64, error) {
			p, err := step.Plan(g, exec, o)
			if err != nil {
				return 0, err
			}
			return p.Bytes, nil
		})
		if err != nil {
			return err
		}
		fitted[micro] = &Fitted{Step: s, Bytes: bytes}
		return nil
	}
	run := func(micro int) error { return fitted[micro].check(ctx, batch/micro, exec, o) }
	found, err := Search(ctx, batch, planned, run)
	if err != nil && found.Runs == 0 && errors.Is(err, plan.ErrBudget) {
		err = fmt.Errorf("train: a batch of %d does not fit %s, not even in micro-batches of one: %w", batch, units.Bytes(o.Compile.Budget), err)
	}
	if err != nil {
		return nil, err
	}
	f := fitted[found.Micro]
	f.Found = found
	return f, nil
}

// check runs a step on zeros.
func (f *Fitted) check(ctx context.Context, accumulate int, exec step.Executor, o Options) (err error) {
	o.Accumulate = accumulate
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
