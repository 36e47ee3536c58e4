package loader

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/loader/internal/devdecode"
	"github.com/pinion-gpu/pinion/loader/internal/read"
	"github.com/pinion-gpu/pinion/loader/internal/usercode"
)

// schedule hands the samples of the feeder's batches, beginning with batch from,
// to the workers as slabs become free. Epochs follow each other without a pause.
// A batch that cannot be made is replaced by its error, and is the last. If the
// dataset ends this goroutine, spawn starts another.
func (n *feeder) schedule(from int, spawn func(func())) {
	l := n.loader
	row := probe.Row{Group: "loader", Name: "schedule " + n.dev.Info().ID}
	own := l.workers.NewReader(row.Name)
	defer own.Close()
	b, making, over := from, false, false
	defer func() {
		switch {
		case over:
		case making:
			n.jobs <- read.FailedJob(b, l.order.epoch(b), fmt.Errorf("loader: %w in the sampler or the dataset", usercode.ErrGoexit))
		default:
			spawn(func() { n.schedule(b+1, spawn) })
		}
	}()
	for ; b < l.total(); b++ {
		if l.feeders[b%len(l.feeders)] != n || l.skip[b] {
			continue
		}
		making = true
		j, err := n.newJob(b)
		making = false
		if err != nil {
			n.jobs <- read.FailedJob(b, l.order.epoch(b), err)
			over = true
			return
		}
		waits := probe.Begin(row, "wait for a slab")
		place, ok := receive(l.ctx, n.free)
		waits.End(row, probe.Span{Name: "wait for a slab", Batch: b + 1})
		if !ok {
			over = true
			return
		}
		j.Slab, j.Files = place.slab, place.files
		if j.Files != nil {
			j.Files.Reset(devdecode.KeepBytes / len(n.slabs.All))
		}
		if !l.options.Unordered {
			n.jobs <- j // never blocks: there is room for every slab, and an error
		}
		switch count := len(j.Indexes); {
		case count == 0:
			j.Finish(0)
		case l.workers.Quick(count):
			own.Do(j)
		default:
			l.workers.Put(j)
		}
	}
	over = true
}

// newJob works out what is in batch b. It has no slab yet.
func (n *feeder) newJob(b int) (j *read.Job, err error) {
	l := n.loader
	defer usercode.Recover(&err, "loader: in the sampler or the dataset")
	epoch, number := l.order.at(b)
	indexes := l.order.batches.AppendAt(nil, epoch, number)
	if count := len(indexes); count > l.order.largest {
		return nil, fmt.Errorf("loader: %w: batch %d of epoch %d has %d samples, but Batch is %d", device.ErrArgument, number, epoch, count, l.order.largest)
	}
	for _, i := range indexes {
		if i < 0 || i >= l.samples {
			return nil, fmt.Errorf("loader: %w: the sampler gives sample %d of %d in batch %d of epoch %d", device.ErrArgument, i, l.samples, number, epoch)
		}
	}
	contents, err := l.layout.Contents(indexes)
	if err != nil {
		return nil, fmt.Errorf("loader: %w", err)
	}
	var done chan *read.Job
	if l.options.Unordered {
		done = n.jobs
	}
	return read.NewJob(b, epoch, number, contents, done), nil
}

// receive receives from c until ctx ends; ok is false then, and when c is closed.
func receive[T any](ctx context.Context, c <-chan T) (v T, ok bool) {
	select {
	case v, ok = <-c:
		return v, ok
	case <-ctx.Done():
		return v, false
	}
}
