package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/panicked"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/transfer"
)

// run is one run of a [Pipeline]. Chunks go through four stages, each
// with goroutines of its own, the last one the caller's:
//
//	copy in -> compute -> copy out -> retire
//
// Stages queue work or do it, and pass the chunk on at once; what has to wait
// for whom on the device goes along as events. Two things come back and hold
// the stages up: buffers, with the event behind which they are free, and
// jobs, of which there are more than buffers so that work is queued ahead.
type run struct {
	*Pipeline
	engine *transfer.Engine
	plan   layout

	ctx        context.Context
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
	atEnd      []func() error // run in reverse order: streams, which wait, before the memory

	in, out copier // out is nil without Out
	compute device.Stream

	base   device.Event // passed at
	origin time.Time    // by the host's clock
	setup  time.Duration

	jobs            []*job
	ready           chan *job   // jobs that are not in use
	arrived         []chan *job // by worker
	computed        []chan *job
	copied          []chan *job
	inFree, outFree chan chunkBuffer

	times []ChunkTimes // of chunks that are through

	mu    sync.Mutex
	err   error
	errAt int // index of the chunk that err is about
}

// job is one chunk on its way.
type job struct {
	chunk   Chunk
	in, out chunkCopy
	start   device.Event // of the computing
	end     device.Event
	queued  bool // end is recorded for this chunk, and nobody waited for it
}

// chunkBuffer is device memory for a chunk, free behind an event, or now.
type chunkBuffer struct {
	ptr   device.Ptr
	after device.Event
}

func newRun(ctx context.Context, e *transfer.Engine, p *Pipeline, plan layout) *run {
	r := &run{Pipeline: p, engine: e, plan: plan}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// open takes from the device what the run needs.
func (r *run) open() (err error) {
	dev := r.engine.Device()
	memory, err := dev.Alloc(r.plan.deviceBytes)
	if err != nil {
		return fmt.Errorf("%s for chunks of %s in and %s out: %w", units.Count(r.plan.buffers, "buffer"),
			units.Bytes(r.plan.chunkItems*r.plan.itemBytes), units.Bytes(r.plan.chunkItems*r.plan.outItemBytes), err)
	}
	r.atEnd = append(r.atEnd, func() error { return dev.Free(memory) })
	r.inFree = make(chan chunkBuffer, r.plan.buffers)
	r.outFree = make(chan chunkBuffer, r.plan.buffers)
	for i := range int64(r.plan.buffers) {
		at := memory.Add(i * (r.plan.inSlot + r.plan.outSlot))
		r.inFree <- chunkBuffer{ptr: at}
		r.outFree <- chunkBuffer{ptr: at.Add(r.plan.inSlot)}
	}
	if r.in, r.out, err = newCopiers(r.engine, r.Pipeline, r.newStream); err != nil {
		return err
	}
	if r.compute, err = r.newStream(); err != nil {
		return err
	}
	// Twice as many chunks are queued as there are buffers: enough for the
	// host to stay ahead, few enough to stop soon.
	n := min(2*r.plan.buffers, r.plan.chunks)
	r.ready = make(chan *job, n)
	for range n {
		f, err := r.newJob()
		if err != nil {
			return err
		}
		r.jobs = append(r.jobs, f)
		r.ready <- f
	}
	return r.newBase()
}

func (r *run) newStream() (device.Stream, error) {
	s, err := r.engine.Device().NewStream()
	if err != nil {
		return nil, err
	}
	device.Label(s, "pipeline")
	r.atEnd = append(r.atEnd, s.Close)
	return s, nil
}

// newEvents makes events. Whoever waits for one waits for a chunk, so it may
// sleep.
func (r *run) newEvents(events ...*device.Event) error {
	for _, e := range events {
		made, err := r.engine.Device().NewEvent(device.EventBlockingSync)
		if err != nil {
			return err
		}
		r.atEnd = append(r.atEnd, made.Close)
		*e = made
	}
	return nil
}

func (r *run) newJob() (*job, error) {
	f := &job{}
	events := []*device.Event{&f.start, &f.end}
	if _, queued := r.in.(*queuedCopier); queued {
		events = append(events, &f.in.start, &f.in.end)
	}
	if _, queued := r.out.(*queuedCopier); queued {
		events = append(events, &f.out.start, &f.out.end)
	}
	return f, r.newEvents(events...)
}

// newBase sets the zero of the report's times.
func (r *run) newBase() error {
	if err := r.newEvents(&r.base); err != nil {
		return err
	}
	before := time.Now()
	if err := errors.Join(r.compute.Record(r.base), r.base.Synchronize()); err != nil {
		return err
	}
	r.origin = before.Add(time.Since(before) / 2) // it passed in between
	return nil
}

// start starts the stages in front of retire.
func (r *run) start() {
	r.arrived = r.stage(r.in.workers(), []chan *job{r.ready}, r.copyIn)
	r.computed = r.stage(1, r.arrived, r.queueCompute)
	r.copied = r.computed
	if r.out != nil {
		r.copied = r.stage(r.out.workers(), r.computed, r.copyOut)
	}
}

// stage starts a stage that takes jobs from the workers of from and returns
// its own workers. Chunk k takes worker k modulo their number; the workers begin
// with their chunks in turn, each when the one before has called pass or is
// done.
func (r *run) stage(workers int, from []chan *job, work func(f *job, index int, pass func()) error) []chan *job {
	turns := make([]chan struct{}, workers)
	to := make([]chan *job, workers)
	for worker := range workers {
		turns[worker] = make(chan struct{}, 1)
		to[worker] = make(chan *job, len(r.jobs)) // room for all: sending never blocks
	}
	turns[0] <- struct{}{}
	for worker := range workers {
		r.launch(func() {
			for index := worker; index < r.plan.chunks; index += workers {
				if _, ok := receive(r.ctx, turns[worker]); !ok {
					return
				}
				f, ok := receive(r.ctx, from[index%len(from)])
				if !ok {
					return
				}
				pass := sync.OnceFunc(func() { turns[(worker+1)%workers] <- struct{}{} })
				if err := work(f, index, pass); err != nil {
					r.fail(index, err)
					return
				}
				pass()
				to[worker] <- f
			}
		})
	}
	return to
}

// launch runs fn in a goroutine that ends before the run does. Code of the
// caller that ends the goroutine ([testing.T.FailNow] does) ends the run.
func (r *run) launch(fn func()) {
	r.goroutines.Go(func() {
		returned := false
		defer func() {
			if !returned {
				r.fail(-1, errors.New("the goroutine was ended by the caller's code"))
			}
		}()
		fn()
		returned = true
	})
}

// receive takes a value from c, unless ctx ends first.
func receive[T any](ctx context.Context, c <-chan T) (v T, ok bool) {
	select {
	case v = <-c:
		return v, true
	case <-ctx.Done():
		return v, false
	}
}

func (r *run) copyIn(f *job, index int, pass func()) error {
	var outOffset int64
	f.chunk, outOffset = r.plan.chunk(index)
	f.in.offset, f.in.n = f.chunk.Offset, f.chunk.InBytes
	f.out.offset, f.out.n = outOffset, f.chunk.OutBytes
	b, ok := receive(r.ctx, r.inFree)
	if !ok {
		return r.ctx.Err()
	}
	f.chunk.In, f.in.ptr = b.ptr, b.ptr
	if b.after != nil {
		if err := r.in.wait(b.after); err != nil {
			return fmt.Errorf("wait for a buffer: %w", err)
		}
	}
	if err := r.in.copy(r.ctx, &f.in, pass); err != nil {
		return fmt.Errorf("copy in: %w", err)
	}
	return nil
}

func (r *run) queueCompute(f *job, _ int, _ func()) error {
	f.chunk.Out, f.out.ptr = 0, f.chunk.In
	waitFor := []device.Event{f.in.done}
	if r.out != nil {
		if !r.InPlace {
			b, ok := receive(r.ctx, r.outFree)
			if !ok {
				return r.ctx.Err()
			}
			f.out.ptr = b.ptr
			waitFor = append(waitFor, b.after)
		}
		f.chunk.Out = f.out.ptr
	}
	for _, e := range waitFor {
		if e != nil {
			if err := r.compute.Wait(e); err != nil {
				return fmt.Errorf("compute: %w", err)
			}
		}
	}
	if err := r.compute.Record(f.start); err != nil {
		return fmt.Errorf("compute: %w", err)
	}
	if err := protected(func() error { return r.Compute(r.compute, f.chunk) }); err != nil {
		return fmt.Errorf("compute: %w", err)
	}
	if err := r.compute.Record(f.end); err != nil {
		return fmt.Errorf("compute: %w", err)
	}
	f.queued = true
	if !r.InPlace {
		r.inFree <- chunkBuffer{f.chunk.In, f.end}
	}
	return nil
}

func (r *run) copyOut(f *job, _ int, pass func()) error {
	if err := r.out.wait(f.end); err != nil {
		return fmt.Errorf("compute: %w", err)
	}
	if err := r.out.copy(r.ctx, &f.out, pass); err != nil {
		return fmt.Errorf("copy out: %w", err)
	}
	free := r.outFree
	if r.InPlace {
		free = r.inFree
	}
	free <- chunkBuffer{f.out.ptr, f.out.done}
	return nil
}

// retire waits for chunks in order, until all are through or the run ends.
func (r *run) retire() {
	for index := range r.plan.chunks {
		f, ok := receive(r.ctx, r.copied[index%len(r.copied)])
		if !ok {
			return
		}
		times, err := r.land(f)
		if err != nil {
			r.fail(index, err)
			return
		}
		r.times = append(r.times, times)
		if r.Progress != nil {
			r.Progress(f.chunk.Offset+f.chunk.InBytes, r.plan.items*r.plan.itemBytes)
		}
		r.ready <- f
	}
}

// land waits for a chunk that is queued to the end and takes its times.
func (r *run) land(f *job) (t ChunkTimes, err error) {
	for _, step := range []struct {
		name string
		done device.Event
	}{{"copy in", f.in.done}, {"compute", f.end}, {"copy out", f.out.done}} {
		if step.done == nil {
			continue
		}
		if err := step.done.Synchronize(); err != nil {
			return t, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	f.queued = false
	t.Bytes = f.chunk.InBytes
	if t.CopyIn, err = f.in.interval(r.base, r.origin); err != nil {
		return t, fmt.Errorf("copy in: %w", err)
	}
	if t.Compute, err = eventInterval(r.base, f.start, f.end); err != nil {
		return t, fmt.Errorf("compute: %w", err)
	}
	if r.out != nil {
		if t.CopyOut, err = f.out.interval(r.base, r.origin); err != nil {
			return t, fmt.Errorf("copy out: %w", err)
		}
	}
	return t, nil
}

// fail ends the run with an error of that chunk, or of none (-1). Only the
// first counts, and none after the context has ended: the others are its
// consequences.
func (r *run) fail(index int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return
	}
	r.setError(index, err)
	r.cancel()
}

func (r *run) setError(index int, err error) {
	if index >= 0 {
		chunk, _ := r.plan.chunk(index)
		err = fmt.Errorf("chunk %d (bytes %d to %d of In): %w",
			index, chunk.Offset, chunk.Offset+chunk.InBytes, err)
	}
	r.err, r.errAt = panicked.WithStack(fmt.Errorf("transfer: pipeline: %w", err)), index
}

// close waits for the goroutines and for what is queued, and gives everything
// back. It returns the first error of that.
func (r *run) close() error {
	r.cancel()
	r.goroutines.Wait()
	// When computing fails on the device, the stages behind may meet the error
	// with a later chunk first, or at the memory that was to be used again.
	slices.SortFunc(r.jobs, func(a, b *job) int { return a.chunk.Index - b.chunk.Index })
	for _, f := range r.jobs {
		if r.err != nil && f.queued && f.chunk.Index < r.errAt {
			if err := f.end.Synchronize(); err != nil {
				r.setError(f.chunk.Index, fmt.Errorf("compute: %w", err))
			}
		}
	}
	var errs []error
	for _, end := range slices.Backward(r.atEnd) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}
