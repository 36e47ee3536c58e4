package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/transfer"
)

// reader carries out the steps of one target.
type reader struct {
	target  Target
	dev     device.Device
	path    transfer.FilePath
	limits  limits
	workers []*worker
	set     *kernels.Set // nil as long as nothing is cast
}

// worker is what one goroutine needs for its steps.
type worker struct {
	*reader
	host    []byte  // small parts are read here
	staging *memory // and parts that are cast here, nil: none yet
	stream  device.Stream
}

// job is a step, where on the device its memory begins, and which of several
// layers it is of.
type job struct {
	step
	base  device.Ptr
	layer int
}

func newReader(t Target, o *Options) *reader {
	r := &reader{target: t, dev: t.Engine.Device(), path: o.Path, limits: o.limits}
	for range o.limits.parallel {
		r.workers = append(r.workers, &worker{reader: r})
	}
	return r
}

// staging is the memory that each worker needs to cast what these steps read;
// 0 where nothing is cast.
func staging(steps []step) (bytes int64) {
	for i := range steps {
		if steps[i].cast {
			bytes = max(bytes, steps[i].bytes)
		}
	}
	return bytes
}

// prepare takes what casting needs.
func (r *reader) prepare(ctx context.Context, staging int64) (err error) {
	if staging == 0 {
		return nil
	}
	if r.set, err = kernels.Load(r.dev); err != nil {
		return err
	}
	for _, w := range r.workers {
		if w.stream, err = r.dev.NewStream(); err != nil {
			return err
		}
		if w.staging, err = r.target.alloc(ctx, staging, "cast", true); err != nil {
			return err
		}
	}
	return nil
}

// run carries out the jobs that jobs yields, several at once and begun in that
// order, and reports each that is done: those calls come one at a time. The first
// error ends the run, and the context that jobs got.
func (r *reader) run(ctx context.Context, jobs func(ctx context.Context, yield func(job)) error, done func(job, transfer.FileReport)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan job)
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, w := range r.workers {
		all.Go(func() {
			for j := range todo {
				if ctx.Err() != nil {
					continue
				}
				report, err := w.do(ctx, j)
				if err != nil {
					cancel(err)
					continue
				}
				mu.Lock()
				done(j, report)
				mu.Unlock()
			}
		})
	}
	if err := jobs(ctx, func(j job) { todo <- j }); err != nil {
		cancel(err)
	}
	close(todo)
	all.Wait()
	return context.Cause(ctx)
}

// do carries out one job and waits for it.
func (w *worker) do(ctx context.Context, j job) (r transfer.FileReport, err error) {
	switch {
	case j.direct:
		return w.read(ctx, &j.step, j.base.Add(j.at))
	case j.cast:
		return w.cast(ctx, &j)
	default:
		return w.spread(ctx, &j)
	}
}

func (w *worker) read(ctx context.Context, s *step, to device.Ptr) (transfer.FileReport, error) {
	return w.target.Engine.ReadFile(ctx, transfer.FileCopy{File: s.file.OS(), Offset: s.offset, Bytes: s.bytes, Device: to, Path: w.path})
}

func (w *worker) cast(ctx context.Context, j *job) (transfer.FileReport, error) {
	r, err := w.read(ctx, &j.step, w.staging.ptr)
	if err != nil {
		return r, err
	}
	for _, c := range j.cuts {
		if err := w.set.Cast(w.stream, j.base.Add(c.at), c.to, w.staging.ptr.Add(c.from), c.source, c.bytes/int64(c.source.Size())); err != nil {
			return r, j.about(errors.Join(err, w.stream.Synchronize()))
		}
	}
	return r, j.about(w.stream.Synchronize())
}

// spread reads small tensors together and gives each its place.
func (w *worker) spread(ctx context.Context, j *job) (r transfer.FileReport, err error) {
	if int64(len(w.host)) < j.bytes {
		w.host = make([]byte, j.bytes)
	}
	host := w.host[:j.bytes]
	if err := j.readAt(host); err != nil {
		return r, err
	}
	first, end := j.cuts[0].at, int64(0)
	blocks := make([]transfer.Block, len(j.cuts))
	for i, c := range j.cuts {
		blocks[i] = transfer.Block{Dst: c.at - first, Src: c.from, Bytes: c.bytes}
		end = max(end, c.at+c.bytes)
	}
	r.CachedBytes = j.bytes
	return r, j.about(w.target.Engine.Batch(ctx, transfer.Batch{
		Dst: transfer.Device(j.base.Add(first), end-first), Src: transfer.Host(host), Blocks: blocks,
	}))
}

// readAt reads the step into b, which is as long. Its errors name the file.
func (s *step) readAt(b []byte) error {
	n, err := s.file.OS().ReadAt(b, s.offset)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return s.about(fmt.Errorf("the file has shrunk, %d of %d bytes at %d: %w", n, len(b), s.offset, io.ErrUnexpectedEOF))
	}
	return err
}

// about says what file an error that does not name it is about.
func (s *step) about(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.file.Path(), err)
}

// close gives back what casting took. No run may be under way.
func (r *reader) close() error {
	var all []error
	for _, w := range r.workers {
		if w.stream != nil {
			all = append(all, w.stream.Close())
		}
		if w.staging != nil {
			all = append(all, w.staging.free())
		}
	}
	if r.set != nil {
		all = append(all, r.set.Close())
	}
	return errors.Join(all...)
}
