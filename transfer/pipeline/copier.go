package pipeline

import (
	"context"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/panicked"
	"github.com/pinion-gpu/pinion/transfer"
)

// copier copies chunks in one direction.
type copier interface {
	// workers is the number of goroutines that copy at once.
	workers() int

	// wait holds the next copy up until the newest mark of e is passed.
	wait(e device.Event) error

	// copy moves a chunk. It calls pass when the copy of the next one may
	// begin; returning does the same.
	copy(ctx context.Context, c *chunkCopy, pass func()) error
}

// chunkCopy is the way of one chunk through a copier.
type chunkCopy struct {
	ptr       device.Ptr
	offset, n int64 // on the host's side

	done       device.Event // what users of the memory wait for; nil: the copy is over
	start, end device.Event // of queued copies
	from, to   time.Time    // of blocking ones
}

// interval is when the copy ran. base is an event that passed at origin.
func (c *chunkCopy) interval(base device.Event, origin time.Time) (Interval, error) {
	if c.done == nil {
		return Interval{c.from.Sub(origin), c.to.Sub(origin)}, nil
	}
	return eventInterval(base, c.start, c.end)
}

// eventInterval is the time between two events, counted from base. The length
// is measured for itself: on CUDA times are float32 milliseconds, which far
// from the base are coarse.
func eventInterval(base, start, end device.Event) (Interval, error) {
	at, err := start.Since(base)
	if err != nil {
		return Interval{}, err
	}
	length, err := end.Since(start)
	return Interval{at, at + length}, err
}

// queuedCopier copies pinned memory on a stream of its own. The host does not
// wait for anything.
type queuedCopier struct {
	stream device.Stream
	host   []byte
	toHost bool
}

func (q *queuedCopier) workers() int { return 1 }

func (q *queuedCopier) wait(e device.Event) error { return q.stream.Wait(e) }

func (q *queuedCopier) copy(_ context.Context, c *chunkCopy, _ func()) error {
	c.done = c.end
	b := q.host[c.offset : c.offset+c.n]
	return device.Timed(q.stream, c.start, c.end, func() error {
		if q.toHost {
			return q.stream.CopyD2H(b, c.ptr)
		}
		return q.stream.CopyH2D(c.ptr, b)
	})
}

// blockingCopier copies what is not pinned memory. Two chunks are on their way
// at once, because the link would stand idle while one copy ends and the next
// one begins.
type blockingCopier struct {
	move func(ctx context.Context, p device.Ptr, offset, n int64, progress func(done, total int64)) error
}

func (b *blockingCopier) workers() int { return 2 }

func (b *blockingCopier) wait(e device.Event) error { return e.Synchronize() }

func (b *blockingCopier) copy(ctx context.Context, c *chunkCopy, pass func()) error {
	// The next copy begins in the last quarter of this one: earlier, and the
	// two share the link, so that this one arrives late; later, and there is
	// less time to begin.
	progress := func(done, total int64) {
		if done >= total-total/4 {
			pass()
		}
	}
	c.done, c.from = nil, time.Now()
	err := protected(func() error { return b.move(ctx, c.ptr, c.offset, c.n, progress) })
	c.to = time.Now()
	return err
}

// newCopiers makes the copiers of p; out is nil without Out.
func newCopiers(e *transfer.Engine, p *Pipeline, newStream func() (device.Stream, error)) (in, out copier, err error) {
	queued := func(side any, toHost bool) (copier, error) {
		b, ok := side.(Bytes)
		if pinner, can := device.As[device.Pinner](e.Device()); !ok || !can || !pinner.Pinned(b) {
			return nil, nil
		}
		stream, err := newStream()
		return &queuedCopier{stream, b, toHost}, err
	}
	if in, err = queued(p.In, false); err != nil {
		return nil, nil, err
	}
	if in == nil {
		in = &blockingCopier{func(ctx context.Context, dst device.Ptr, offset, n int64, progress func(done, total int64)) error {
			return p.In.ReadTo(ctx, e, dst, offset, n, progress)
		}}
	}
	if p.Out == nil {
		return in, nil, nil
	}
	if out, err = queued(p.Out, true); err != nil {
		return nil, nil, err
	}
	if out == nil {
		out = &blockingCopier{func(ctx context.Context, src device.Ptr, offset, n int64, progress func(done, total int64)) error {
			return p.Out.WriteFrom(ctx, e, src, offset, n, progress)
		}}
	}
	return in, out, nil
}

// protected runs the caller's code and makes an error of a panic.
func protected(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked.Error(p)
		}
	}()
	return fn()
}
