package loader

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// Batch is a batch in device memory. It belongs to the caller until Release,
// even if its loader is closed before.
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

	// The same in device memory, an i32 a sample, and for each row of each sample
	// a byte that is 1 for data and 0 for padding. 0 where there is no such thing.
	DeviceLabels  device.Ptr
	DeviceLengths device.Ptr
	DeviceMask    device.Ptr

	// Targets is what goes with the samples, see [Options].Targets; nil if there
	// are none.
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

// Retain adds a holder: the memory is given back when Release has been called
// once more than Retain. It fails with [ErrReleased] if it was given back.
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
// stream of another device, Release waits). Without streams, the caller's work
// on it must be done already; for work on streams that the caller does not have,
// see [Batch.ReleaseAfterAll]. One Release too many fails with [ErrReleased].
// Several holders may call it at the same time. After the loader's Close the last Release waits
// for the work on the streams and frees the memory.
func (b *Batch) Release(after ...device.Stream) error {
	for _, s := range after {
		if s == nil {
			return fmt.Errorf("loader: release: %w: no stream", device.ErrArgument)
		}
	}
	return b.release(func(d *deviceBuffer) error {
		var errs []error
		for _, s := range after {
			if d.mark(s.Record) == nil {
				continue
			}
			// A stream that cannot be waited for on the device (of another
			// device, say) is waited for here. A closed one has finished its
			// work.
			errs = append(errs, openErrors(s.Synchronize()))
		}
		return errors.Join(errs...)
	})
}

// ReleaseAfterAll is [Batch.Release] behind everything queued so far on any
// stream of the device, whoever made it: another library, say. That includes the
// loader's own work for the batches behind, so Release with the streams that
// use the batch gives its memory back sooner.
//
// It returns at once where the device can mark the work of all streams
// ([device.ContextRecorder], CUDA 12.5 and newer), and waits for the device
// where it cannot. Do not call it while a CUDA graph is captured: the capture
// would fail.
func (b *Batch) ReleaseAfterAll() error {
	return b.release(func(d *deviceBuffer) error {
		if all := d.feeder.recorder; all != nil && d.mark(all.RecordAll) == nil {
			return nil
		}
		return openErrors(d.feeder.dev.Synchronize())
	})
}

// release has mark record where the caller's work ends, and offers the buffer
// again.
func (b *Batch) release(mark func(d *deviceBuffer) error) error {
	d := b.buffer
	l := d.feeder.loader
	l.closing.RLock()
	defer l.closing.RUnlock()
	if b.refs.Load() > 0 {
		if err := mark(d); err != nil {
			b.refs.Add(1) // never taken off
			_ = b.drop()
			return fmt.Errorf("loader: release: cannot tell when the work on the batch ends, so its memory is not reused: %w", err)
		}
	}
	switch left := b.drop(); {
	case left < 0:
		return ErrReleased
	case left > 0:
		return nil
	case l.closed:
		return d.closeAfterUse()
	}
	d.feeder.held.Add(-1)
	d.holder.Store(free)
	d.feeder.buffers <- d // never blocks: there is room for every buffer
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
