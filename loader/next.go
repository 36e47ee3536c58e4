package loader

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/pinion-gpu/pinion/internal/panicked"
	"github.com/pinion-gpu/pinion/internal/probe"
)

// Next returns the next batch, complete in device memory, and [io.EOF] after
// the last one of all epochs. It waits until there is one or ctx ends; nothing
// is lost then, and Next can be called again. Only one goroutine at a time may
// call Next or run a loop over the loader.
//
// When the caller holds every buffer of the device whose turn it is, Next makes
// another, up to [Options].MaxDeviceBuffers, and then fails with [ErrHeld]:
// release a batch first.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	l.leftEarly = false
	return l.next(ctx)
}

func (l *Loader) next(ctx context.Context) (*Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.ended() {
		return nil, errClosed
	}
	b, err := l.peek(ctx, everyEpoch)
	if err != nil {
		return nil, err
	}
	defer l.waited(l.counters.deviceWait.begin(), probe.Begin(consumer, "wait for a batch"))
	select {
	case <-b.complete:
	default:
		select {
		case <-b.complete:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if b.late != nil {
		return nil, b.late
	}
	if !l.deliver(b) {
		return nil, errClosed
	}
	l.arriving = nil
	l.finished.Add(-1)
	l.counters.arrived(b)
	l.delivered(b.n)
	return b, nil
}

// deliver gives a batch to the caller; false when the loader is closed.
func (l *Loader) deliver(b *Batch) bool {
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.closed {
		return false
	}
	b.buffer.holder.Store(withCaller)
	b.buffer.feeder.held.Add(1)
	return true
}

// peek returns the batch that Next returns next, which is queued but perhaps not
// complete. It passes over batches of which nothing could be read, but not over
// whole epochs. If the given epoch is over, it returns nil without waiting for
// the next one.
func (l *Loader) peek(ctx context.Context, epoch int) (*Batch, error) {
	defer l.waited(l.counters.deviceWait.begin(), probe.Begin(consumer, "wait for a batch"))
	l.leaveEnd()
	for {
		if epoch >= 0 && l.over(epoch) {
			return nil, nil
		}
		if l.arriving != nil {
			return l.arriving, nil
		}
		if l.failure != nil {
			return nil, l.failure
		}
		if err := ctx.Err(); err != nil { // there may be very many to pass over
			return nil, err
		}
		b, err := l.take(ctx)
		if err == io.EOF && l.endless {
			begun, failed := l.nextPass()
			if begun && failed == nil {
				continue
			}
			err = cmp.Or(failed, err)
		}
		switch {
		case err != nil:
			return nil, err
		case b.err != nil:
			l.failure = panicked.WithStack(b.err)
		case b.buffer == nil:
			l.delivered(b.n)
			l.failure = l.empty(b)
		default:
			l.emptied.sound(b.Epoch)
			l.arriving = b
		}
	}
}

// waited counts the time since start as time spent waiting for a batch.
func (l *Loader) waited(start time.Time, mark probe.Mark) {
	end := time.Now()
	l.counters.deviceWait.end(end)
	mark.End(consumer, probe.Span{Name: "wait for a batch", Start: start, End: end})
}

// consumer is the row of a timeline for whoever takes batches.
var consumer = probe.Row{Group: "loader", Name: "consumer"}

// over reports whether all batches of an epoch were delivered.
func (l *Loader) over(epoch int) bool {
	l.position.Lock()
	defer l.position.Unlock()
	return l.order.epoch(l.done) > epoch
}

// take returns the batch whose turn it is, and keeps others that come meanwhile.
func (l *Loader) take(ctx context.Context) (*Batch, error) {
	for {
		for n, b := range l.early {
			if l.due(b) {
				delete(l.early, n)
				return b, nil
			}
		}
		b, err := l.receive(ctx)
		if err != nil {
			return nil, err
		}
		if l.due(b) {
			return b, nil
		}
		l.early[b.n] = b
	}
}

// due reports whether it is the turn of b: the next one in order, or if they
// come in any order, one of the epoch.
func (l *Loader) due(b *Batch) bool {
	l.position.Lock()
	defer l.position.Unlock()
	if l.options.Unordered {
		return b.n/l.order.perEpoch == l.done/l.order.perEpoch
	}
	return b.n == l.done
}

// receive waits for any batch.
func (l *Loader) receive(ctx context.Context) (*Batch, error) {
	select {
	case b, ok := <-l.ready:
		return l.received(b, ok)
	default:
	}
	if n := l.held(); n != nil {
		if err := n.grow(); err != nil {
			return nil, err
		}
	}
	select {
	case b, ok := <-l.ready:
		return l.received(b, ok)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *Loader) received(b *Batch, ok bool) (*Batch, error) {
	switch {
	case ok:
		return b, nil
	case l.ended():
		return nil, errClosed
	}
	if err := l.nothingRead(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// held returns a device whose buffers the caller holds, all of them, and with
// them those of every other device that could have the next batch: then none can
// come before the caller releases one. Of several devices it is one that may have
// more buffers, if there is any. It returns nil if a batch can come, and at the
// end, which needs no buffer.
func (l *Loader) held() (full *feeder) {
	l.position.Lock()
	defer l.position.Unlock()
	end := min(l.done+1, l.total())
	if l.options.Unordered && l.done < l.order.total {
		end = l.done - l.done%l.order.perEpoch + l.order.perEpoch
	}
	for n := l.done; n < end; n++ {
		if l.ahead[n] {
			continue
		}
		f := l.feeders[n%len(l.feeders)]
		if int(f.held.Load()) < len(f.made) {
			return nil
		}
		if full == nil || len(full.made) == cap(full.buffers) {
			full = f
		}
	}
	return full
}
