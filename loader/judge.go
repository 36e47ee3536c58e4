package loader

import "fmt"

// judge tells epochs of which every sample was left out: to go on would be to
// run through empty epochs, for ever if so many are asked for. It belongs to
// Next.
type judge struct {
	good    int   // the last epoch that is in order: with a sample, or not seen from its start
	leftOut int   // samples of the epoch behind it, so far
	why     error // the first of them
}

// newJudge makes the judge of a loader that is about to start.
func (l *Loader) newJudge() judge {
	if l.order.perEpoch > 0 && (l.first%l.order.perEpoch > 0 || len(l.skip) > 0) {
		return judge{good: l.order.epoch(l.first)}
	}
	return judge{good: -1}
}

// sound notes an epoch of which there is a sample.
func (g *judge) sound(epoch int) { *g = judge{good: epoch} }

// empty notes a batch of which nothing is left. It fails when that was the last
// of its epoch, and there was no other.
func (l *Loader) empty(b *Batch) error {
	g := &l.judge
	if b.Epoch == g.good {
		return nil
	}
	g.leftOut += b.leftOut
	if g.why == nil {
		g.why = b.why
	}
	if !l.over(b.Epoch) || g.leftOut == 0 { // without samples by the caller's own order
		return nil
	}
	return fmt.Errorf("loader: %w: all %d of epoch %d were left out; the first: %w", ErrNoSamples, g.leftOut, b.Epoch, g.why)
}

// nothing stands for a batch of which no sample is left.
func (j *job) nothing() *Batch {
	return &Batch{Epoch: j.epoch, n: j.n, leftOut: j.leftOut, why: j.why}
}
