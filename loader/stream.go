package loader

import (
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/loader/internal/read"
)

// checkStream refuses what cannot be done with a dataset of unknown length,
// which is read once, from its first sample to its last.
func checkStream(ds dataset.Dataset, o Options) error {
	if ds.Len() != dataset.UnknownLen {
		return nil
	}
	for _, c := range []struct {
		asked   bool
		option  string
		instead string
	}{
		{o.Shuffle || o.Sampler != nil || o.Batches != nil, "Shuffle, Sampler and Batches", "shuffle it by a buffer of its own"},
		{o.World > 1, "World above 1", "give each rank a part of it"},
		{o.Epochs > 1, "Epochs above 1", "make a loader for each pass"},
		{o.Unordered, "Unordered", "its samples come in their order"},
		{o.OnError == Replace, "Replace", "skip what cannot be read"},
		{len(o.Targets) > 0, "Targets", "it has none"},
	} {
		if c.asked {
			return fmt.Errorf("loader: %w: a stream of unknown length cannot be used with %s: %s", device.ErrArgument, c.option, c.instead)
		}
	}
	return nil
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

// total is the number of batches in all epochs, as far as that is known.
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
		return e.failure(0)
	}
	return nil
}
