package loader

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
)

// lane is what a loader has of one device.
type lane struct {
	loader  *Loader
	dev     device.Device
	form    *transform
	slabs   *slabs
	staging *staging        // copies them where they are not pinned; nil: nothing does
	copies  device.Stream   // of slabs, and nothing else
	compute device.Stream   // of transforms
	made    []*deviceBuffer // every device buffer

	decoding    *decoding    // nil where workers decode
	notDecoding string       // and why
	held        atomic.Int64 // batches with the caller

	free    chan *slab         // slabs that can be filled
	jobs    chan *job          // batches to queue, in order; some are being read
	copied  chan passage       // batches on their way to the device, in order
	buffers chan *deviceBuffer // device buffers that can be filled

	reading reading // of samples that replace others
	small   int     // copies that were too small to time each

	// Where batches come in any order: the epoch that is queued now, how many
	// of its batches are to come, and batches of later ones.
	epoch, left int
	later       []*job
}

// newLane prepares what a device does. What was taken before an error is the
// lane's, to give back.
func (l *Loader) newLane(dev device.Device) (n *lane, err error) {
	n = &lane{loader: l, dev: dev, reading: reading{loader: l}}
	if n.form, err = newTransform(dev, l.spec, l.rows, l.options); err != nil {
		return n, err
	}
	if n.copies, err = dev.NewStream(); err != nil {
		return n, err
	}
	if n.compute, err = dev.NewStream(); err != nil {
		return n, err
	}
	if n.decoding, n.notDecoding, err = newDecoding(n); err != nil {
		return n, err
	}
	return n, nil
}

// takeMemory takes buffers and slabs.
func (n *lane) takeMemory() (err error) {
	l := n.loader
	for range l.options.DeviceBuffers {
		d, err := n.newBuffer()
		if errors.Is(err, device.ErrOutOfMemory) && len(n.made) > 0 {
			break // less overlap than wished for
		}
		if err != nil {
			return fmt.Errorf("loader: device memory for one batch of %d samples: %w", l.order.largest, err)
		}
		n.made = append(n.made, d)
	}
	all := int64(math.MaxInt64)
	if slab := l.slabBytes(); l.order.total < int(all/slab) {
		all = slab * int64(l.order.total)
	}
	n.slabs, err = makeSlabs(n.dev, l.options.Prefetch+1, l.slabBytes(), all, l.options.Pin, l.options.PinBudget)
	switch {
	case err != nil:
		return err
	case n.decoding != nil:
		for _, s := range n.slabs.all {
			s.files = make([]file, l.order.largest)
		}
	case !n.slabs.pinned:
		n.staging, err = newStaging(n.dev, l.options, l.slabBytes(), all)
	}
	return err
}

func (n *lane) newBuffer() (*deviceBuffer, error) {
	d := &deviceBuffer{lane: n}
	err := func() (err error) {
		if d.raw, err = n.dev.Alloc(n.loader.slabBytes()); err != nil {
			return err
		}
		d.data = d.raw
		if n.form.queue != nil {
			if d.data, err = n.dev.Alloc(n.batchBytes()); err != nil {
				return err
			}
		}
		for i := range d.marks {
			if d.marks[i], err = n.dev.NewEvent(device.EventBlockingSync); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil {
		return nil, errors.Join(err, n.freeBuffer(d))
	}
	return d, nil
}

// batchBytes is the size of the samples of a full batch as delivered.
func (n *lane) batchBytes() int64 { return int64(n.loader.order.largest) * n.form.sampleBytes }

func (n *lane) freeBuffer(d *deviceBuffer) error {
	var errs []error
	if d.data != 0 && d.data != d.raw {
		errs = append(errs, n.dev.Free(d.data))
	}
	if d.raw != 0 {
		errs = append(errs, n.dev.Free(d.raw))
	}
	for _, e := range append(d.marks[:], d.used...) {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}

// open makes the channels.
func (n *lane) open() {
	n.free = make(chan *slab, len(n.slabs.all))
	for _, s := range n.slabs.all {
		n.free <- s
	}
	n.buffers = make(chan *deviceBuffer, len(n.made))
	for _, d := range n.made {
		n.buffers <- d
	}
	n.jobs = make(chan *job, len(n.slabs.all)+1)
	n.epoch = n.loader.first/max(n.loader.order.perEpoch, 1) - 1 // the first is to begin
	n.copied = make(chan passage, len(n.slabs.all))
}

// close gives everything back. Nothing runs any more.
func (n *lane) close() error {
	var errs []error
	for _, s := range []device.Stream{n.copies, n.compute} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if n.decoding != nil {
		errs = append(errs, n.decoding.close())
	}
	errs = append(errs, n.staging.close())
	for _, d := range n.made {
		errs = append(errs, n.freeBuffer(d))
	}
	if n.form != nil {
		errs = append(errs, n.form.close())
	}
	if n.slabs != nil {
		errs = append(errs, n.slabs.close())
	}
	return errors.Join(errs...)
}
