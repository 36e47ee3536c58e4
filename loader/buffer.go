package loader

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
)

// deviceBuffer is the device memory of one batch and the events around it.
type deviceBuffer struct {
	feeder *feeder
	raw    device.Ptr // as copied from the host: samples, then what goes with them
	data   device.Ptr // the samples; raw when nothing is transformed
	events events
	timed  int   // batches that the times between events stand for; 0: not timed
	staged bool  // the copy was done when it was queued, and timed there
	queued int64 // bytes copied

	holder atomic.Int32 // who has it: free, withLoader or withCaller

	mu    sync.Mutex     // against a Release too many
	used  []device.Event // recorded by Release; the first inUse are waited for
	inUse int

	reading sync.Mutex
	stream  device.Stream // of Batch.Read; nil until it is needed
}

// Who has a device buffer.
const (
	free = iota
	withLoader
	withCaller
)

// events are marks in the streams of a feeder around what it does with a batch.
type events struct {
	copyBegin, copied        device.Event // around the copy; the first where it is timed
	transformBegin, complete device.Event // around the transform; the first where it is timed
}

func (e *events) all() [4]*device.Event {
	return [4]*device.Event{&e.copyBegin, &e.copied, &e.transformBegin, &e.complete}
}

// newBuffer takes memory for a batch.
func (n *feeder) newBuffer() (*deviceBuffer, error) {
	if err := n.inBudget(); err != nil {
		return nil, err
	}
	d := &deviceBuffer{feeder: n}
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *deviceBuffer) open() (err error) {
	n := d.feeder
	if d.raw, err = n.dev.Alloc(n.loader.layout.Bytes()); err != nil {
		return err
	}
	d.data = d.raw
	if n.form.queue != nil {
		if d.data, err = n.dev.Alloc(n.batchBytes()); err != nil {
			return err
		}
	}
	for _, e := range d.events.all() {
		if *e, err = n.dev.NewEvent(device.EventBlockingSync); err != nil {
			return err
		}
	}
	return nil
}

// close frees the memory, which nothing uses any more.
func (d *deviceBuffer) close() error {
	dev := d.feeder.dev
	var errs []error
	if d.stream != nil {
		errs = append(errs, d.stream.Close())
	}
	if d.data != 0 && d.data != d.raw {
		errs = append(errs, dev.Free(d.data))
	}
	if d.raw != 0 {
		errs = append(errs, dev.Free(d.raw))
	}
	for _, e := range d.events.all() {
		if *e != nil {
			errs = append(errs, (*e).Close())
		}
	}
	for _, e := range d.used {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}

// closeAfterUse frees the memory when the work of its last callers is done. A
// device that was closed has freed it already.
func (d *deviceBuffer) closeAfterUse() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, e := range d.used[:d.inUse] {
		errs = append(errs, e.Synchronize())
	}
	return openErrors(append(errs, d.close())...)
}

// openErrors joins errors, without those of what was closed.
func openErrors(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, device.ErrClosed) })
	return errors.Join(errs...)
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

// mark has an event recorded behind the caller's work.
func (d *deviceBuffer) mark(record func(device.Event) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inUse == len(d.used) {
		e, err := d.feeder.dev.NewEvent(device.EventNoTiming)
		if err != nil {
			return err
		}
		d.used = append(d.used, e)
	}
	if err := record(d.used[d.inUse]); err != nil {
		return err
	}
	d.inUse++
	return nil
}
