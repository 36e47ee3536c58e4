package loader

import (
	"fmt"

	"github.com/pinion-gpu/pinion/loader/internal/read"
)

// emptied notices epochs of which every sample was left out: to go on would be
// to run through empty epochs, for ever if so many are asked for. It belongs to
// Next.
type emptied struct {
	good    int   // the last epoch that is in order: with a sample, or not seen from its start
	leftOut int   // samples of the epoch behind it, so far
	why     error // the first of them
}

// newEmptied is for a run that is about to start.
func (l *Loader) newEmptied(r *run) emptied {
	if l.order.perEpoch > 0 && (r.first%l.order.perEpoch > 0 || len(r.skip) > 0) {
		return emptied{good: l.order.epoch(r.first)}
	}
	return emptied{good: -1}
}

// sound notes an epoch of which there is a sample.
func (e *emptied) sound(epoch int) { *e = emptied{good: epoch} }

// empty notes a batch of which nothing is left. It fails when that was the last
// of its epoch, and there was no other.
func (l *Loader) empty(b *Batch) error {
	e := &l.emptied
	if b.Epoch == e.good {
		return nil
	}
	e.leftOut += b.leftOut
	if e.why == nil {
		e.why = b.why
	}
	if !l.over(b.Epoch) || e.leftOut == 0 { // without samples by the caller's own order
		return nil
	}
	return fmt.Errorf("loader: %w: all %d of epoch %d were left out; the first: %w", ErrNoSamples, e.leftOut, b.Epoch, e.why)
}

// nothing stands for a batch of which no sample is left.
func nothing(j *read.Job) *Batch {
	return &Batch{Epoch: j.Epoch, n: j.N, leftOut: j.LeftOut, why: j.Why}
}
