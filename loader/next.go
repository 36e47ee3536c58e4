package loader

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"
)

// Next returns the next batch, complete in device memory, and [io.EOF] after
// the last one of all epochs. It waits until there is one or ctx ends; nothing
// is lost then, and Next can be called again. It must not be called by two
// goroutines at once. With every buffer of the device whose turn it is in the
// caller's hands it fails with [ErrHeld]: release a batch first, or ask for
// more DeviceBuffers.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.ended() {
		return nil, errClosed
	}
	b, err := l.peek(ctx, -1)
	if err != nil {
		return nil, err
	}
	defer l.waited(time.Now())
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
	l.arriving = nil
	b.buffer.feeder.held.Add(1)
	l.counters.arrived(b)
	l.delivered(b.n)
	return b, nil
}

// All returns the batches that are still to come, of all epochs, for a range
// loop. An error is the last pair. The loop's body releases the batches.
func (l *Loader) All(ctx context.Context) iter.Seq2[*Batch, error] {
	return l.rest(ctx, false)
}

// Epoch returns the rest of one epoch, that of the next batch, for a range
// loop. An error is the last pair. The loop's body releases the batches. The
// first batches of the epoch after it are on their way meanwhile.
func (l *Loader) Epoch(ctx context.Context) iter.Seq2[*Batch, error] {
	return l.rest(ctx, true)
}

// rest returns the batches that are still to come, of one epoch or of all.
func (l *Loader) rest(ctx context.Context, one bool) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		epoch := -1
		for {
			b, err := l.peek(ctx, epoch)
			if err == io.EOF || err == nil && b == nil {
				return
			}
			if err == nil {
				b, err = l.Next(ctx)
			}
			if err == nil && one {
				epoch = b.Epoch
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// peek returns the batch that Next returns next, queued if not complete. Those
// of which nothing could be read are passed over, but not whole epochs. It
// returns nothing where an epoch is given that is over: it waits for none of the
// next one.
func (l *Loader) peek(ctx context.Context, epoch int) (*Batch, error) {
	defer l.waited(time.Now())
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
		switch {
		case err != nil:
			return nil, err
		case b.err != nil:
			l.failure = b.err
		case b.buffer == nil:
			l.delivered(b.n)
			l.failure = l.empty(b)
		default:
			l.emptied.sound(b.Epoch)
			l.arriving = b
		}
	}
}

// waited counts the time since start as waited for a batch.
func (l *Loader) waited(start time.Time) { l.counters.deviceWait.Add(int64(time.Since(start))) }

// over reports whether all batches of an epoch were delivered.
func (l *Loader) over(epoch int) bool {
	l.position.Lock()
	defer l.position.Unlock()
	return l.order.epoch(l.done) > epoch
}

// take returns the batch whose turn it is. Others that come meanwhile are kept.
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

// due reports whether it is the turn of b: as the next one in order, or as one
// of the epoch.
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
	if err := l.held(); err != nil {
		return nil, err
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
	return nil, io.EOF
}

// held fails when no batch can come before the caller releases one: the caller
// holds every buffer of each device that a batch whose turn it is may come to.
// At the end there are none, and the end itself needs no buffer.
func (l *Loader) held() error {
	l.position.Lock()
	defer l.position.Unlock()
	end := min(l.done+1, l.order.total)
	if l.options.Unordered && l.done < l.order.total {
		end = l.done - l.done%l.order.perEpoch + l.order.perEpoch
	}
	held, all := 0, 0
	for n := l.done; n < end; n++ {
		if l.ahead[n] {
			continue
		}
		feeder := l.feeders[n%len(l.feeders)]
		held, all = int(feeder.held.Load()), len(feeder.made)
		if held < all {
			return nil
		}
	}
	if all == 0 {
		return nil
	}
	return fmt.Errorf("loader: %w: %d of %d", ErrHeld, held, all)
}
