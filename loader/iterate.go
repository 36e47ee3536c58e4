package loader

import (
	"context"
	"fmt"
	"io"
	"iter"
)

// All returns the batches of all epochs to come, for a range loop. An error is
// the last pair. The loop's body releases the batches.
//
// A loop begins where the loader is: at the start, behind the state that it
// resumed, behind the last batch of the loop or the [Loader.Next] before it. But
// after a loop that was left inside an epoch, by break, return or an error, the
// next loop begins with a new epoch: what is left of the old one is dropped, and
// that one does not count as one of [Options].Epochs. [Loader.Rest] and
// [Loader.Next] go on inside the old epoch instead. What was read ahead is lost
// when an epoch is dropped, so the first batch of the new one takes its time.
func (l *Loader) All(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if err := l.dropRest(ctx); err != nil {
			yield(nil, err)
			return
		}
		l.loop(ctx, everyEpoch, yield)
	}
}

// Epoch returns the batches of one epoch, for a range loop: the next epoch, or
// the rest of one that was begun by [Loader.Next] or [Options].Resume. After a
// loop that was left early it is a new epoch, see [Loader.All]. An error is the
// last pair. The loop's body releases the batches. The first batches of the
// epoch after it are on their way meanwhile.
func (l *Loader) Epoch(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if err := l.dropRest(ctx); err != nil {
			yield(nil, err)
			return
		}
		if l.emptyRest {
			l.leaveEnd()
			return
		}
		l.loop(ctx, nextEpoch, yield)
	}
}

// Rest returns the batches that are left of an epoch, for a range loop: after a
// loop that was left early, it goes on where that one was. Between two epochs
// it returns none.
func (l *Loader) Rest(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		epoch := nextEpoch
		l.position.Lock()
		if l.within() {
			epoch = l.order.epoch(l.done)
		}
		l.position.Unlock()
		if epoch == nextEpoch {
			l.leaveEnd()
			return
		}
		l.loop(ctx, epoch, yield)
	}
}

// What a loop is over, beside the epoch of a number.
const (
	everyEpoch = -2
	nextEpoch  = -1
)

// loop gives the batches of an epoch to a loop's body.
func (l *Loader) loop(ctx context.Context, epoch int, yield func(*Batch, error) bool) {
	left := l.leftEarly
	defer func() { l.leftEarly = left }() // whatever the body does
	for {
		b, err := l.peek(ctx, epoch)
		if err == io.EOF || err == nil && b == nil {
			left = false
			l.leaveEnd()
			return
		}
		if err == nil {
			b, err = l.next(ctx)
		}
		if err == nil {
			left = true // unless the loop comes back for more
			if epoch == nextEpoch {
				epoch = b.Epoch
			}
		}
		if !yield(b, err) || err != nil {
			return
		}
	}
}

// within reports whether the loader is inside an epoch. The caller holds
// position.
func (l *Loader) within() bool {
	return l.order.perEpoch > 0 && (l.done%l.order.perEpoch > 0 || len(l.ahead) > 0)
}

// dropRest goes on to the next epoch, if the last loop was left inside one.
func (l *Loader) dropRest(ctx context.Context) error {
	if l.endless && l.leftEarly { // its last batch may have been the last of a stream
		l.position.Lock()
		epoch := l.order.epoch(l.done)
		l.position.Unlock()
		if b, err := l.peek(ctx, epoch); err != nil && err != io.EOF {
			return err
		} else if b == nil {
			l.leftEarly = false
		}
	}
	l.position.Lock()
	drop := l.leftEarly && l.within()
	at := 0
	if drop {
		at = (l.order.epoch(l.done) + 1) * l.order.perEpoch
	}
	l.position.Unlock()
	if !drop {
		l.leftEarly = false
		return nil
	}
	if l.failure != nil {
		return l.failure
	}
	if l.endless { // as long as only loops begin
		if err := l.repeats(); err != nil {
			return fmt.Errorf("loader: a new epoch after a loop that was left early: %w; Rest goes on inside the old one", err)
		}
	}
	l.leftEarly = false
	err := l.drop(at)
	if err != nil {
		l.failure = err
	}
	return err
}

// leaveEnd notes that the caller went on behind the end of an epoch.
func (l *Loader) leaveEnd() {
	l.emptyRest = false
	l.position.Lock()
	l.atEnd = false
	l.position.Unlock()
}
