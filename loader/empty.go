package loader

import (
	"fmt"

	"github.com/pinion-gpu/pinion/loader/internal/read"
)

// emptied notices epochs of which every sample was left out: going on would mean
// running through empty epochs, possibly for ever. It belongs to Next.
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

// sound notes that an epoch has a sample.
func (e *emptied) sound(epoch int) { *e = emptied{good: epoch} }

// empty notes a batch of which nothing is left. It fails if that was the last
// one of an epoch in which all batches were like it.
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
	return e.failure(b.Epoch)
}

func (e *emptied) failure(epoch int) error {
	return fmt.Errorf("loader: %w: all %d of epoch %d were left out; the first: %w", ErrNoSamples, e.leftOut, epoch, e.why)
}

// nothing stands for a batch with no sample left.
func nothing(j *read.Job) *Batch {
	return &Batch{Epoch: j.Epoch, n: j.N, leftOut: j.LeftOut, why: j.Why}
}
