package loader

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// Batch is a batch in device memory. It belongs to the caller until Release.
type Batch struct {
	Device device.Device // whose memory it is in
	Data   device.Ptr    // the samples, packed one behind the other
	DType  dtype.DType   // of their elements
	Shape  []int         // the number of samples first, then a sample's shape on the device
	Bytes  int64         // size of Data

	Labels  []int32 // class of each sample; -1 where there is none
	Indexes []int   // number of each sample in the dataset

	// Lengths is the length of axis 0 of each sample, where samples differ in
	// it and are padded to Shape[1]; else nil.
	Lengths []int32

	// The same in device memory, an i32 a sample, and for each row of each
	// sample a byte that is 1 for data and 0 for padding. 0 for what there is
	// not.
	DeviceLabels  device.Ptr
	DeviceLengths device.Ptr
	DeviceMask    device.Ptr

	// Targets is what goes with the samples, see [Options].Targets; nil where
	// there is nothing.
	Targets []Target

	// Mix is the weight of each sample in its mixture with its [Batch.Partner],
	// where they are mixed; else nil. DeviceMix is the same in device memory,
	// a f32 a sample.
	Mix       []float32
	DeviceMix device.Ptr

	Epoch  int // counts from 0
	Number int // of the batch within its epoch, from 0

	n        int           // of the loader's batches in all
	err      error         // in place of everything above
	leftOut  int           // samples, where none is left
	why      error         // the first of them
	complete chan struct{} // closed when the data is there, or never will be
	late     error         // why it never will be
	buffer   *deviceBuffer
	refs     atomic.Int64
}

// Retain adds a holder: the memory is given back when Release was called once
// more than Retain. It fails with [ErrReleased] when it is given back already.
func (b *Batch) Retain() error {
	for {
		n := b.refs.Load()
		if n <= 0 {
			return ErrReleased
		}
		if b.refs.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

// Release ends the caller's hold; the last holder's gives the memory back. It
// is reused once the work queued so far on the given streams is done (for a
// stream of another device, Release waits); without streams, the caller's work
// on it must be done already. One Release too many fails with [ErrReleased].
// After the loader's Close it does nothing. Holders may call it at once.
func (b *Batch) Release(after ...device.Stream) error {
	for _, s := range after {
		if s == nil {
			return fmt.Errorf("loader: release: %w: no stream", device.ErrArgument)
		}
	}
	return b.buffer.feeder.loader.release(b, after)
}

// deviceBuffer is the device memory of one batch and the events around it.
type deviceBuffer struct {
	feeder *feeder
	raw    device.Ptr // as copied from the host: samples, then what goes with them
	data   device.Ptr // the samples; raw when nothing is transformed
	events events
	timed  int   // batches that the times between events stand for; 0: not timed
	staged bool  // the copy was done when it was queued, and timed there
	queued int64 // bytes copied

	mu    sync.Mutex     // against a Release too many
	used  []device.Event // recorded by Release; the first inUse are waited for
	inUse int
}

// events are marks in the streams of a feeder around what it does with a batch.
type events struct {
	copyBegin, copied        device.Event // around the copy; the first where it is timed
	transformBegin, complete device.Event // around the transform; the first where it is timed
}

func (e *events) all() [4]*device.Event {
	return [4]*device.Event{&e.copyBegin, &e.copied, &e.transformBegin, &e.complete}
}

// release records where the caller's work ends and offers the buffer again.
func (l *Loader) release(b *Batch, after []device.Stream) error {
	l.closing.RLock()
	defer l.closing.RUnlock()
	d := b.buffer
	var errs []error
	if !l.closed && b.refs.Load() > 0 {
		for _, s := range after {
			if d.mark(s) == nil {
				continue
			}
			// A stream that cannot be waited for on the device (of another
			// device, say) is waited for here. A closed one has finished its
			// work.
			if err := s.Synchronize(); err != nil && !errors.Is(err, device.ErrClosed) {
				errs = append(errs, fmt.Errorf("loader: release: the end of the work on the batch cannot be known, so its memory stays with the caller: %w", err))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		b.refs.Add(1) // for ever
		_ = b.drop()
		return err
	}
	switch left := b.drop(); {
	case left < 0:
		return ErrReleased
	case left == 0 && !l.closed:
		d.feeder.held.Add(-1)
		d.feeder.buffers <- d // never blocks: there is room for every buffer
	}
	return nil
}

// drop takes a holder off and returns how many are left, below 0 if there was
// none.
func (b *Batch) drop() int64 {
	for {
		n := b.refs.Load()
		if n <= 0 {
			return -1
		}
		if b.refs.CompareAndSwap(n, n-1) {
			return n - 1
		}
	}
}

// idle reports whether the work of the last callers is done.
func (d *deviceBuffer) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.used[:d.inUse] {
		if done, _ := e.Done(); !done {
			return false
		}
	}
	return true
}

// mark records an event behind the work of s.
func (d *deviceBuffer) mark(s device.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inUse == len(d.used) {
		e, err := d.feeder.dev.NewEvent(device.EventNoTiming)
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
