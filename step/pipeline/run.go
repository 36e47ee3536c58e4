package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/train"
)

// Run runs a step. All ranks call it. batch makes the tensors of a micro-batch, one for each
// of the step's Batch, and is called once for each, from 0, when the rank's first stage comes
// to it; Run frees them. That may be before what the stage needs of other ranks is there, and
// while earlier passes are on the device, whose batches are still in use. All ranks get the
// loss, the mean over micro-batches.
//
// A loss that is not finite is a [train.ErrNotFinite], on all ranks. If a step fails
// otherwise, or ctx ends, which is asked before each pass and while a rank waits for others,
// the rank aborts its communicator and can do no more than Close; the error names the rank
// and the stage. Who runs the ranks has to abort those of the others then, as package
// parallel/auto does.
func (r *Runner) Run(ctx context.Context, batch func(micro int) ([]*step.Tensor, error)) (train.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.usable(); err != nil {
		return train.Result{}, err
	}
	if missing := slices.Index(r.put, false); missing >= 0 {
		return train.Result{}, r.missing(missing)
	}
	begin := time.Now()
	result := train.Result{Step: r.steps + 1}
	x := newPasses(ctx, r, batch)
	err := x.run()
	if err == nil {
		result.Loss, err = r.finish(ctx, x.loss)
	}
	if err != nil {
		err = r.fail(fmt.Errorf("pipeline: rank %d of %d: step %d: %w", r.rank, r.l.ranks, result.Step, err))
		_ = x.wait()
		return train.Result{}, errors.Join(err, x.free())
	}
	if err := x.free(); err != nil {
		return train.Result{}, r.fail(err)
	}
	r.steps++
	r.took = time.Since(begin)
	if math.IsNaN(result.Loss) || math.IsInf(result.Loss, 0) {
		return result, fmt.Errorf("pipeline: step %d: the loss is %v: %w", result.Step, result.Loss, train.ErrNotFinite)
	}
	return result, nil
}

// finish updates the state when the gradients are there, and tells ranks the loss.
func (r *Runner) finish(ctx context.Context, loss float64) (float64, error) {
	if err := r.share(ctx); err != nil {
		return 0, fmt.Errorf("what updates need of each other: %w", err)
	}
	if r.update != nil {
		out, err := r.update.x.Run(context.Background(), r.updateInputs(r.update), r.update.donate)
		if err != nil {
			return 0, fmt.Errorf("update: %w", err)
		}
		for k, i := range r.next {
			if before := r.state[slot{i, -1}]; before != nil && !before.Freed() {
				_ = before.Free() // the update did not read it
			}
			r.state[slot{i, -1}] = out[k]
		}
	}
	if err := r.spread(ctx); err != nil {
		return 0, fmt.Errorf("new state for other ranks: %w", err)
	}
	data := make([]byte, 8)
	last := (len(r.l.parts) - 1) % r.l.ranks
	if last == r.rank {
		binary.LittleEndian.PutUint64(data, math.Float64bits(loss))
		if err := r.loss.Write(data); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(r.c.Broadcast(r.stream, r.loss.Ptr(), 8, last), r.settled(ctx)); err != nil {
		return 0, fmt.Errorf("the loss: %w", err)
	}
	err := r.loss.Read(data)
	return math.Float64frombits(binary.LittleEndian.Uint64(data)), err
}

// updateInputs are what a part of the update reads.
func (r *Runner) updateInputs(p *program) (list []*step.Tensor) {
	for _, v := range p.in {
		switch at := r.l.update.place(v); {
		case at >= 0 && at != r.rank:
			list = append(list, r.told[v])
		case r.l.update.isGradient(v):
			list = append(list, r.sums[slices.Index(r.l.step.Gradients, v)])
		default:
			list = append(list, r.state[slot{r.l.state[v], -1}])
		}
	}
	return list
}

// share computes what updates of other ranks need of this one, and tells all ranks.
func (r *Runner) share(ctx context.Context) error {
	if r.shared != nil {
		out, err := r.shared.x.Run(context.Background(), r.updateInputs(r.shared), nil)
		if err != nil {
			return err
		}
		for k, v := range r.shared.out {
			if err := r.told[v].Free(); err != nil {
				return err
			}
			r.told[v] = out[k]
		}
	}
	for _, v := range r.l.update.shared {
		if err := r.c.Broadcast(r.stream, r.told[v].Ptr(), v.Shape().Bytes(), r.l.update.place(v)); err != nil {
			return err
		}
	}
	return r.settled(ctx)
}

// settled waits for what ranks do together, or until ctx ends.
func (r *Runner) settled(ctx context.Context) error {
	if err := r.stream.Record(r.together); err != nil {
		return err
	}
	return device.Wait(ctx, r.together)
}

// spread sends state that was updated to the ranks that read it besides, such as
// embeddings that are tied.
func (r *Runner) spread(ctx context.Context) error {
	var transfers []parallel.Transfer
	for _, d := range r.spreads {
		if t := r.state[slot{d.state, -1}]; d.from == r.rank {
			transfers = append(transfers, parallel.Send(t.Ptr(), t.Shape().Bytes(), d.to))
		} else {
			transfers = append(transfers, parallel.Recv(t.Ptr(), t.Shape().Bytes(), d.from))
		}
	}
	if len(transfers) == 0 {
		return nil
	}
	return errors.Join(r.c.Exchange(r.stream, transfers...), r.settled(ctx))
}
