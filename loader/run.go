package loader

import (
	"context"
	"errors"
	"maps"
	"math"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/loader/internal/read"
)

// run is the goroutines of a loader, from the batch that they begin with to
// the last, or until they are stopped.
type run struct {
	ctx        context.Context // ends when the run is stopped
	stop       context.CancelFunc
	goroutines sync.WaitGroup
	workers    *read.Workers
	ready      chan *Batch  // batches queued to the devices, in the order of each
	finished   atomic.Int64 // batches that are complete on their devices, and not delivered

	first int          // the batch to begin with
	skip  map[int]bool // batches behind it that are not wanted
	limit atomic.Int64 // no batch from this number on has samples: a stream ended

	// What Next keeps: batches of other devices that came before their turn,
	// and the one that was taken but not complete when the context of Next
	// ended.
	early    map[int]*Batch
	arriving *Batch
	emptied  emptied
}

// start makes the channels and the goroutines.
func (l *Loader) start() {
	r := &run{first: l.done, skip: maps.Clone(l.ahead), early: map[int]*Batch{}}
	r.limit.Store(math.MaxInt64)
	if l.endless {
		l.beginPass(l.order.epoch(l.done))
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.emptied = l.newEmptied(r)
	// Where batches come in any order, none are read by those who make them: one
	// that takes its time after all would hold up those behind, which need not
	// wait for it.
	source := read.Source{Layout: &l.layout, Encoded: l.encoded, Seed: l.options.Seed, Timeout: l.options.SampleTimeout}
	if l.options.CPUShare == AutoShare {
		source.Hungry = func() bool { return r.finished.Load() == 0 }
	}
	r.workers = read.NewWorkers(r.ctx, source, &l.times, !l.options.Unordered)
	buffers := 0
	for _, n := range l.feeders {
		n.open(r)
		buffers += cap(n.buffers)
	}
	r.ready = make(chan *Batch, buffers)
	l.position.Lock()
	l.run = r
	l.position.Unlock()

	var schedules, reads, uploads sync.WaitGroup
	for _, n := range l.feeders {
		schedules.Go(func() { n.schedule(r.first, schedules.Go) })
		uploads.Go(n.upload)
		r.goroutines.Go(n.finish)
	}
	for i := range l.options.Workers {
		reads.Go(func() { r.workers.Work(i+1, reads.Go) })
	}
	r.goroutines.Go(func() {
		schedules.Wait()
		r.workers.Close()
		reads.Wait()
		for _, n := range l.feeders {
			close(n.jobs)
		}
		uploads.Wait()
		close(r.ready)
	})
}

// offer gives a batch to Next; false when the run was stopped.
func (r *run) offer(b *Batch) bool {
	select {
	case r.ready <- b:
		return true
	case <-r.ctx.Done():
		return false
	}
}

// end stops the goroutines and waits for them.
func (r *run) end() {
	r.stop()
	r.goroutines.Wait()
}

// drop ends the run and starts another with batch n, the first of the epoch
// after one that is dropped. What was read ahead is lost.
func (l *Loader) drop(n int) error {
	return l.restart(func() {
		if l.endless {
			l.gap += n - l.done
		}
		l.done = n
		l.dropped++
		l.order.count(l.options.Epochs, l.dropped)
	})
}

// restart ends the run, calls move, which changes the position, and starts
// another there.
func (l *Loader) restart(move func()) error {
	l.lifetime.Lock()
	defer l.lifetime.Unlock()
	if l.ended() {
		return errClosed
	}
	l.run.end()
	for _, f := range l.feeders {
		if err := f.reclaim(); err != nil {
			return err
		}
	}
	l.position.Lock()
	clear(l.ahead)
	move()
	l.position.Unlock()
	l.start()
	return nil
}

// reclaim takes back slabs and device buffers from a run that ended, but for
// those that are with the caller. It fails if the device does not say that it
// is done with them.
func (n *feeder) reclaim() error {
	errs := []error{n.copies.Synchronize(), n.compute.Synchronize()}
	if n.decoder != nil {
		errs = append(errs, n.decoder.Synchronize())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for len(n.free) > 0 {
		<-n.free
	}
	for _, p := range n.places {
		n.free <- p
	}
	for _, d := range n.made {
		if d.holder.CompareAndSwap(withLoader, free) {
			n.buffers <- d
		}
	}
	return nil
}
