package loader

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/loader/internal/devdecode"
	"github.com/pinion-gpu/pinion/loader/internal/read"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
)

// feeder is what a loader has of one device: memory, streams, and the goroutines
// that schedule, upload and finish its batches.
type feeder struct {
	loader  *Loader
	dev     device.Device
	form    *transform
	slabs   *slab.Slabs
	staging *slab.Staging   // copies them where they are not pinned; nil: nothing does
	copies  device.Stream   // of slabs, and nothing else
	compute device.Stream   // of transforms
	made    []*deviceBuffer // every device buffer

	decoder     *devdecode.Decoder // nil where workers decode
	notDecoding string             // and why
	held        atomic.Int64       // batches with the caller

	free    chan place         // slabs that can be filled
	jobs    chan *read.Job     // batches to queue, in order; some are being read
	copied  chan inFlight      // batches on their way to the device, in order
	buffers chan *deviceBuffer // device buffers that can be filled

	reader *read.Reader // of samples that replace others
	small  int          // copies that were too small to time each

	// Where batches come in any order: the epoch that is queued now, how many
	// of its batches are to come, and batches of later ones.
	epoch, left int
	later       []*read.Job
}

// place is where a batch is read into.
type place struct {
	slab  *slab.Slab
	files *devdecode.Files // where the device decodes; else nil
}

// newFeeder prepares what a device does. What was taken before an error is the
// feeder's, to give back.
func (l *Loader) newFeeder(dev device.Device) (n *feeder, err error) {
	n = &feeder{loader: l, dev: dev}
	if n.form, err = newTransform(dev, l.layout.Samples.Spec, l.layout.Samples.Rows, l.options); err != nil {
		return n, err
	}
	if n.copies, err = dev.NewStream(); err != nil {
		return n, err
	}
	if n.compute, err = dev.NewStream(); err != nil {
		return n, err
	}
	return n, n.openDecoder()
}

// takeMemory takes buffers and slabs.
func (n *feeder) takeMemory() (err error) {
	l := n.loader
	for range l.options.DeviceBuffers {
		d, err := n.newBuffer()
		if errors.Is(err, device.ErrOutOfMemory) && len(n.made) > 0 {
			break // less overlap than asked for
		}
		if err != nil {
			return fmt.Errorf("loader: device memory for one batch of %d samples: %w", l.order.largest, err)
		}
		n.made = append(n.made, d)
	}
	all := int64(math.MaxInt64)
	each := l.layout.Bytes()
	if l.order.total < int(all/each) {
		all = each * int64(l.order.total)
	}
	o := &l.options
	n.slabs, err = slab.Make(n.dev, o.Prefetch+1, each, all, slab.Pin{
		Always: o.Pin == PinAlways, Never: o.Pin == PinNever, Budget: o.PinBudget,
	})
	if err == nil && n.decoder == nil && !n.slabs.Pinned {
		n.staging, err = slab.NewStaging(n.dev, slab.Copiers{Most: o.Copiers, ChunkBytes: o.ChunkBytes, Budget: o.PinBudget}, each, all)
	}
	if err != nil {
		return fmt.Errorf("loader: %w", err)
	}
	return nil
}

func (n *feeder) newBuffer() (*deviceBuffer, error) {
	d := &deviceBuffer{feeder: n}
	err := func() (err error) {
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
	}()
	if err != nil {
		return nil, errors.Join(err, n.freeBuffer(d))
	}
	return d, nil
}

// batchBytes is the size of the samples of a full batch as delivered.
func (n *feeder) batchBytes() int64 { return int64(n.loader.order.largest) * n.form.sampleBytes }

func (n *feeder) freeBuffer(d *deviceBuffer) error {
	var errs []error
	if d.data != 0 && d.data != d.raw {
		errs = append(errs, n.dev.Free(d.data))
	}
	if d.raw != 0 {
		errs = append(errs, n.dev.Free(d.raw))
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

// open makes the channels.
func (n *feeder) open() {
	l := n.loader
	n.reader = l.workers.NewReader()
	n.free = make(chan place, len(n.slabs.All))
	for _, s := range n.slabs.All {
		p := place{slab: s}
		if n.decoder != nil {
			p.files = n.decoder.NewFiles(l.order.largest)
		}
		n.free <- p
	}
	n.buffers = make(chan *deviceBuffer, len(n.made))
	for _, d := range n.made {
		n.buffers <- d
	}
	n.jobs = make(chan *read.Job, len(n.slabs.All)+1)
	n.epoch = l.first/max(l.order.perEpoch, 1) - 1 // the first is to begin
	n.copied = make(chan inFlight, len(n.slabs.All))
}

// close gives everything back. Nothing runs any more.
func (n *feeder) close() error {
	var errs []error
	for _, s := range []device.Stream{n.copies, n.compute} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if n.decoder != nil {
		errs = append(errs, n.decoder.Close())
	}
	errs = append(errs, n.staging.Close())
	for _, d := range n.made {
		errs = append(errs, n.freeBuffer(d))
	}
	if n.form != nil {
		errs = append(errs, n.form.close())
	}
	if n.slabs != nil {
		errs = append(errs, n.slabs.Close())
	}
	return errors.Join(errs...)
}
