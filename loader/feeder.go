package loader

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/loader/internal/devdecode"
	"github.com/pinion-gpu/pinion/loader/internal/read"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
)

// feeder is what a loader has for one device: memory, streams, and the goroutines
// that schedule, upload and finish its batches.
type feeder struct {
	loader      *Loader
	dev         device.Device
	form        *transform
	slabs       *slab.Slabs
	staging     *slab.Staging          // copies them where they are not pinned; nil: nothing does
	copies      device.Stream          // of slabs, and nothing else
	compute     device.Stream          // of transforms
	made        []*deviceBuffer        // every device buffer
	buffersMade atomic.Int64           // how many, for Stats
	recorder    device.ContextRecorder // nil: the device has none

	decoder     *devdecode.Decoder // nil where workers decode
	notDecoding string             // and why
	held        atomic.Int64       // batches with the caller

	places  []place
	free    chan place         // slabs that can be filled
	jobs    chan *read.Job     // batches to queue, in order; some are being read
	copied  chan inFlight      // batches on their way to the device, in order
	buffers chan *deviceBuffer // device buffers that can be filled

	reader *read.Reader // of samples that replace others
	small  int          // copies that were too small to time each

	uploads probe.Row // of a timeline

	// If batches come in any order: the epoch that is being queued, how many of
	// its batches are to come, and batches of later epochs.
	epoch, left int
	later       []*read.Job
}

// place is where a batch is read into.
type place struct {
	slab  *slab.Slab
	files *devdecode.Files // where the device decodes; else nil
}

// newFeeder prepares a device. After an error, the feeder still has what it took
// before, to give it back.
func (l *Loader) newFeeder(dev device.Device) (n *feeder, err error) {
	n = &feeder{loader: l, dev: dev, uploads: probe.Row{Group: "loader", Name: "upload " + dev.Info().ID}}
	if all, ok := device.As[device.ContextRecorder](dev); ok && all.CanRecordAll() {
		n.recorder = all
	}
	if n.form, err = newTransform(dev, l.layout.Samples.Spec, l.layout.Samples.Rows, l.options); err != nil {
		return n, err
	}
	if n.copies, err = dev.NewStream(); err != nil {
		return n, err
	}
	if n.compute, err = dev.NewStream(); err != nil {
		return n, err
	}
	device.Label(n.copies, "loader copies")
	device.Label(n.compute, "loader compute")
	return n, n.openDecoder()
}

// takeMemory takes buffers and slabs.
func (n *feeder) takeMemory() (err error) {
	l := n.loader
	n.buffers = make(chan *deviceBuffer, l.options.MaxDeviceBuffers)
	for range l.options.DeviceBuffers {
		d, err := n.newBuffer()
		if errors.Is(err, device.ErrOutOfMemory) && len(n.made) > 0 {
			break // less overlap than asked for
		}
		if errors.Is(err, device.ErrOutOfMemory) {
			return n.tooLarge(l.order.largest, err)
		}
		if err != nil {
			return fmt.Errorf("loader: device memory for one batch of %s: %w", units.Count(l.order.largest, "sample"), err)
		}
		n.add(d)
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
	n.free = make(chan place, len(n.slabs.All))
	for _, s := range n.slabs.All {
		p := place{slab: s}
		if n.decoder != nil {
			p.files = n.decoder.NewFiles(l.order.largest)
		}
		n.places = append(n.places, p)
		n.free <- p
	}
	return nil
}

// add offers another buffer.
func (n *feeder) add(d *deviceBuffer) {
	n.made = append(n.made, d)
	n.buffersMade.Add(1)
	n.buffers <- d // never blocks: there is room for as many as there may be
}

// grow makes another buffer. It fails with [ErrHeld] if there may be no more, or
// if there is no memory.
func (n *feeder) grow() error {
	l := n.loader
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.closed {
		return errClosed
	}
	made := len(n.made)
	if made == cap(n.buffers) {
		return fmt.Errorf("loader: %w: %d of %d", ErrHeld, made, made)
	}
	d, err := n.newBuffer()
	if err != nil {
		return fmt.Errorf("loader: %w: %d of %d, and there is no memory for another: %w", ErrHeld, made, made, err)
	}
	n.add(d)
	return nil
}

// batchBytes is the size of the samples of a full batch as delivered.
func (n *feeder) batchBytes() int64 { return int64(n.loader.order.largest) * n.form.sampleBytes }

// open makes the channels of a run.
func (n *feeder) open(r *run) {
	l := n.loader
	n.reader = r.workers.NewReader(n.uploads.Name)
	n.jobs = make(chan *read.Job, len(n.places)+1)
	n.copied = make(chan inFlight, len(n.places))
	n.epoch = r.first/max(l.order.perEpoch, 1) - 1 // the first is to begin
	n.left, n.later = 0, nil
}

// close gives everything back, except buffers that the caller holds. Nothing runs
// any more.
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
		if d.holder.Load() != withCaller {
			errs = append(errs, d.close())
		}
	}
	if n.form != nil {
		errs = append(errs, n.form.close())
	}
	if n.slabs != nil {
		errs = append(errs, n.slabs.Close())
	}
	return errors.Join(errs...)
}
