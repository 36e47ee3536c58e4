package loader

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// Batch is a batch in device memory. It belongs to the caller until Release.
type Batch struct {
	Data  device.Ptr  // the samples, packed one behind the other
	DType dtype.DType // of their elements
	Shape []int       // the number of samples first, then a sample's shape on the device
	Bytes int64       // size of Data

	Labels  []int32 // class of each sample; -1 where there is none
	Indexes []int   // number of each sample in the dataset

	Epoch  int // counts from 0
	Number int // of the batch within its epoch, from 0

	loader   *Loader
	buffer   *deviceBuffer
	released atomic.Bool
}

// Release gives the batch's memory back. It is reused once the work queued so
// far on the given streams is done (for a stream of another device, Release
// waits); without streams, the caller's work on it must be done already. A second Release fails with [ErrReleased]. After the
// loader's Close it does nothing.
func (b *Batch) Release(after ...device.Stream) error {
	for _, s := range after {
		if s == nil {
			return fmt.Errorf("loader: release: %w: no stream", device.ErrArgument)
		}
	}
	if b.released.Swap(true) {
		return ErrReleased
	}
	return b.loader.release(b.buffer, after)
}

// deviceBuffer is the device memory of one batch and the events around it.
type deviceBuffer struct {
	raw    device.Ptr // as copied from the host; equal to data when nothing is transformed
	data   device.Ptr
	marks  [4]device.Event // around the copy, and around the transform
	used   []device.Event  // recorded by Release; the first inUse are waited for
	inUse  int
	queued int64 // bytes of the copy that marks are around
}

// release records where the caller's work ends and offers the buffer again.
func (l *Loader) release(d *deviceBuffer, after []device.Stream) error {
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.closed {
		return nil
	}
	var errs []error
	for _, s := range after {
		if l.mark(d, s) == nil {
			continue
		}
		// A stream that cannot be waited for on the device (of another device,
		// say) is waited for here. A closed one has finished its work.
		if err := s.Synchronize(); err != nil && !errors.Is(err, device.ErrClosed) {
			errs = append(errs, fmt.Errorf("loader: release: the end of the work on the batch cannot be known, so its memory stays with the caller: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.held.Add(-1)
	l.buffers <- d // never blocks: there is room for every buffer
	return nil
}

// takeBuffer returns a free buffer, if there is a choice one that nobody's work
// holds any more: the streams of the loader wait for what is used, and what
// waits behind that waits too.
func (l *Loader) takeBuffer() (*deviceBuffer, bool) {
	first, ok := receive(l.ctx, l.buffers)
	if !ok || first.idle() {
		return first, ok
	}
	for range len(l.buffers) {
		select {
		case d := <-l.buffers:
			if d.idle() {
				l.buffers <- first
				return d, true
			}
			l.buffers <- d
		default:
		}
	}
	return first, true
}

// idle reports whether the work of the last caller is done.
func (d *deviceBuffer) idle() bool {
	for _, e := range d.used[:d.inUse] {
		if done, _ := e.Done(); !done {
			return false
		}
	}
	return true
}

// mark records an event of d behind the work of s.
func (l *Loader) mark(d *deviceBuffer, s device.Stream) error {
	if d.inUse == len(d.used) {
		e, err := l.dev.NewEvent(device.EventNoTiming)
		if err != nil {
			return err
		}
		d.used = append(d.used, e)
	}
	if err := s.Record(d.used[d.inUse]); err != nil {
		return err
	}
	d.inUse++
	return nil
}
