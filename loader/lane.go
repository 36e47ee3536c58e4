package loader

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// lane is what a loader has of one device.
type lane struct {
	loader  *Loader
	dev     device.Device
	form    *transform
	slabs   *slabs
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

// passage is a batch on its way to the device, and the event behind which its
// slab is free.
type passage struct {
	batch *Batch
	slab  *slab
	end   device.Event
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
	if err == nil && n.decoding != nil {
		for _, s := range n.slabs.all {
			s.files = make([]file, l.order.largest)
		}
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

// upload queues complete slabs to the device, in order. An error takes the
// place of the batch that it befell.
func (n *lane) upload() {
	defer close(n.copied)
	defer n.reading.close()
	l := n.loader
	for {
		j, ok := n.next()
		if !ok {
			return
		}
		if receive(l.ctx, j.ready); l.ctx.Err() != nil {
			return
		}
		b, err := n.batch(j)
		if err != nil {
			b = &Batch{n: j.n, err: err}
		}
		if !l.offer(b) || err != nil {
			return
		}
	}
}

// next returns the next job to queue. Where they come in any order, those of
// an epoch still come before those of the next.
func (n *lane) next() (*job, bool) {
	l := n.loader
	if !l.options.Unordered {
		return receive(l.ctx, n.jobs)
	}
	for n.left == 0 {
		if n.epoch++; n.epoch*l.order.perEpoch >= l.order.total {
			return nil, false
		}
		n.left = n.share(n.epoch)
	}
	if i := slices.IndexFunc(n.later, func(j *job) bool { return j.epoch == n.epoch }); i >= 0 {
		j := n.later[i]
		n.later = slices.Delete(n.later, i, i+1)
		n.left--
		return j, true
	}
	for {
		j, ok := receive(l.ctx, n.jobs)
		if !ok {
			return nil, false
		}
		if j.epoch == n.epoch {
			n.left--
			return j, true
		}
		n.later = append(n.later, j)
	}
}

// share is how many batches of an epoch are for this lane.
func (n *lane) share(epoch int) (count int) {
	l := n.loader
	for b := epoch * l.order.perEpoch; b < (epoch+1)*l.order.perEpoch; b++ {
		if b >= l.first && !l.skip[b] && l.lanes[b%len(l.lanes)] == n {
			count++
		}
	}
	return count
}

// batch queues what j has read to the device.
func (n *lane) batch(j *job) (b *Batch, err error) {
	defer recoverAs(&err, "while a batch was queued")
	l := n.loader
	if j.err != nil {
		return nil, j.err
	}
	if err := l.settle(j); err != nil {
		return nil, err
	}
	b = &Batch{Device: n.dev, DType: l.options.DType, Epoch: j.epoch, Number: j.number, n: j.n}
	if len(j.indexes) == 0 {
		n.free <- j.slab
		return b, nil
	}
	d, ok := n.takeBuffer()
	if !ok {
		return nil, l.ctx.Err()
	}
	if err := n.waitUsed(d); err != nil {
		return nil, err
	}
	t, err := n.decode(d, j)
	if err != nil {
		return nil, err
	}
	if len(j.indexes) == 0 { // the device refused all, and so did the CPU
		n.free <- j.slab
		n.buffers <- d
		return b, nil
	}
	if b.Mix, err = l.write(t, j); err != nil {
		return nil, err
	}
	if err := n.queue(d, j, t); err != nil {
		return nil, err
	}
	count := len(j.indexes)
	b.Indexes, b.Labels, b.Lengths = j.indexes, j.labels, j.lengths
	b.Data = d.data
	b.Shape = n.form.batchShape(count, j.rows)
	b.Bytes = int64(count*j.rows) * n.form.rowBytes
	b.DeviceLabels = d.raw + device.Ptr(t.labels)
	if j.lengths != nil {
		b.DeviceLengths = d.raw + device.Ptr(t.lengths)
	}
	if l.options.Mask {
		b.DeviceMask = d.raw + device.Ptr(t.mask)
	}
	if b.Mix != nil {
		b.DeviceMix = d.raw + device.Ptr(t.mix)
	}
	b.buffer = d
	b.complete = make(chan struct{})
	b.refs.Store(1)
	end := d.marks[1]
	if n.decoding != nil {
		end = d.marks[3] // files and tables are in use until then
	}
	n.copied <- passage{b, j.slab, end} // never blocks: there is room for every slab
	return b, nil
}

// waitUsed queues the wait for what callers of the last batch in d do.
func (n *lane) waitUsed(d *deviceBuffer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	streams := []device.Stream{n.copies}
	if n.form.queue != nil || n.decoding != nil {
		streams = append(streams, n.compute)
	}
	for _, s := range streams {
		for _, e := range d.used[:d.inUse] {
			if err := s.Wait(e); err != nil {
				return err
			}
		}
	}
	d.inUse = 0
	return nil
}

// decode queues the decoding of j's pictures into d, where the device does
// that, and lays out what goes with the samples. What the device refuses is
// read by the CPU, and may be left out of j.
func (n *lane) decode(d *deviceBuffer, j *job) (t tail, err error) {
	l := n.loader
	for {
		t = l.tailOf(len(j.indexes)*j.rows*l.rowBytes, len(j.indexes), j.rows)
		if n.decoding == nil || len(j.indexes) == 0 {
			return t, nil
		}
		start := time.Now()
		err := n.decoding.queue(d, j, t)
		l.counters.deviceDecode.Add(int64(time.Since(start)))
		if !errors.Is(err, errRefused) {
			return t, err
		}
		// What was queued reads the slab and its files, and writes d.
		if err := n.decoding.stream.Synchronize(); err != nil {
			return t, err
		}
		if err := n.compute.Synchronize(); err != nil {
			return t, err
		}
		j.refused = true
		if err := l.settle(j); err != nil {
			return t, err
		}
	}
}

// queue queues the copy of a slab to d and what turns it into the batch's
// data.
func (n *lane) queue(d *deviceBuffer, j *job, t tail) error {
	from := 0
	if n.decoding != nil {
		from = t.labels // the samples are made on the device
	}
	host := j.slab.bytes[from:t.end]
	d.queued = int64(len(host))
	if n.decoding != nil {
		d.queued += n.decoding.sent
	}
	d.timed = n.timing(len(host))
	if d.timed > 0 {
		if err := n.copies.Record(d.marks[0]); err != nil {
			return err
		}
	}
	if err := n.copies.CopyH2D(d.raw+device.Ptr(from), host); err != nil {
		return err
	}
	if err := n.copies.Record(d.marks[1]); err != nil {
		return err
	}
	if n.form.queue == nil {
		return n.copies.Record(d.marks[3])
	}
	if err := n.compute.Wait(d.marks[1]); err != nil {
		return err
	}
	if d.timed > 0 {
		if err := n.compute.Record(d.marks[2]); err != nil {
			return err
		}
	}
	w := work{dst: d.data, src: d.raw, n: len(j.indexes), rows: j.rows}
	if t.colours != 0 {
		w.colours = d.raw + device.Ptr(t.colours)
	}
	if t.mix != 0 {
		w.mix = d.raw + device.Ptr(t.mix)
	}
	if err := n.form.queue(n.compute, w); err != nil {
		return err
	}
	return n.compute.Record(d.marks[3])
}

// Copies below this size are timed now and then only: reading the clock of the
// device takes longer than they do.
const (
	smallCopy  = 1 << 20
	smallTimed = 16 // one of so many
)

// timing is how many batches the times of the next one stand for, 0 for none.
func (n *lane) timing(bytes int) int {
	if bytes >= smallCopy {
		return 1
	}
	n.small++
	if n.small%smallTimed == 1 {
		return smallTimed
	}
	return 0
}

// finish waits for what is on its way to the device, in order: slabs go back to
// the workers, and batches are complete.
func (n *lane) finish() {
	for p := range n.copied {
		// Where the device fails, Next reports it. The slab must not be
		// written while a copy may read it, so it stays away then.
		hot := 20 * time.Microsecond
		if p.batch.buffer.queued < smallCopy {
			hot = 100 * time.Microsecond // the next one is not far
		}
		err := await(p.end, hot)
		if err == nil {
			n.free <- p.slab
		}
		d := p.batch.buffer
		if p.end != d.marks[3] {
			err = errors.Join(err, await(d.marks[3], hot))
		}
		if err == nil {
			n.loader.counters.moved(d)
		}
		p.batch.late = err
		close(p.batch.complete)
	}
}

// await waits for an event: hot for some time, then asleep.
func await(e device.Event, hot time.Duration) error {
	for start := time.Now(); time.Since(start) < hot; {
		if done, err := e.Done(); done || err != nil {
			return err
		}
	}
	return e.Synchronize()
}

// takeBuffer returns a free buffer, if there is a choice one that nobody's work
// holds any more: the streams of the loader wait for what is used, and what
// waits behind that waits too.
func (n *lane) takeBuffer() (*deviceBuffer, bool) {
	first, ok := receive(n.loader.ctx, n.buffers)
	if !ok || first.idle() {
		return first, ok
	}
	for range len(n.buffers) {
		select {
		case d := <-n.buffers:
			if d.idle() {
				n.buffers <- first
				return d, true
			}
			n.buffers <- d
		default:
		}
	}
	return first, true
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
