package loader

import (
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/loader/internal/read"
)

// checkStream refuses what cannot be done with a dataset of unknown length,
// which is read from its first sample to its last, and once if it is no
// [dataset.Repeater].
func (l *Loader) checkStream() error {
	if !l.endless {
		return nil
	}
	o := l.options
	for _, c := range []struct {
		asked   bool
		option  string
		instead string
	}{
		{o.Shuffle || o.Sampler != nil || o.Batches != nil, "Shuffle, Sampler and Batches", "shuffle it by a buffer of its own"},
		{o.World > 1, "World above 1", "give each rank a part of it"},
		{o.Unordered, "Unordered", "its samples come in their order"},
		{o.OnError == Replace, "Replace", "skip what cannot be read"},
		{len(o.Targets) > 0, "Targets", "it has none"},
	} {
		if c.asked {
			return fmt.Errorf("loader: %w: a stream of unknown length cannot be used with %s: %s", device.ErrArgument, c.option, c.instead)
		}
	}
	if err := l.repeats(); err != nil && o.Epochs > 1 {
		return fmt.Errorf("loader: more than one epoch: %w", err)
	}
	return nil
}

// repeats returns nil if a stream can be read again, or why not.
func (l *Loader) repeats() error {
	if r, ok := dataset.As[dataset.Repeater](l.dataset()); ok {
		return r.Repeats()
	}
	return fmt.Errorf("%w: a stream of unknown length that is read once: make a loader for each pass", device.ErrArgument)
}

// beginPass tells a stream which epoch is read from now on.
func (l *Loader) beginPass(epoch int) {
	if r, ok := dataset.As[dataset.Repeater](l.dataset()); ok {
		r.BeginPass(epoch)
	}
}

// nextPass begins the next epoch of a stream that ended, and reports whether
// there is one. An epoch without any batch is the last: others would have none
// either.
func (l *Loader) nextPass() (begun bool, err error) {
	l.position.Lock()
	per, at, end := l.order.perEpoch, l.done, l.run.limit.Load()
	next := (l.order.epoch(at) + 1) * per
	last := l.order.total-l.order.epoch(at)*per <= per || end == int64(l.first) && l.first%per == 0
	l.position.Unlock()
	if end == math.MaxInt64 || last {
		return false, nil
	}
	return true, l.restart(func() {
		l.gap += next - at
		l.done = next
	})
}

// endsAt notes that no batch from number n on has samples.
func (r *run) endsAt(n int) {
	for {
		now := r.limit.Load()
		if int64(n) >= now || r.limit.CompareAndSwap(now, int64(n)) {
			return
		}
	}
}

// total is the number behind the last batch of all epochs, or of the stream's
// epoch that is read, as far as that is known.
func (l *Loader) total() int { return int(min(int64(l.order.total), l.run.limit.Load())) }

// cutOff deals with a job in whose middle a stream ended: it is the last batch,
// or none, and then its slab is free. It reports whether there is a batch.
func (n *feeder) cutOff(j *read.Job) bool {
	l := n.loader
	if len(j.Indexes)+j.LeftOut == 0 || l.options.DropLast {
		l.endsAt(j.N)
		n.free <- place{j.Slab, j.Files}
		return false
	}
	l.endsAt(j.N + 1)
	return true
}

// nothingRead is why a stream that ended gave no batch, if every sample of it was
// left out.
func (l *Loader) nothingRead() error {
	if e := &l.emptied; l.endless && e.good < 0 && e.leftOut > 0 {
		return e.failure(l.order.epoch(l.first))
	}
	return nil
}
