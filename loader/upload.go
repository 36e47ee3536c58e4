package loader

import (
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/loader/internal/read"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
	"github.com/pinion-gpu/pinion/loader/internal/usercode"
	"github.com/pinion-gpu/pinion/sampler"
)

// upload queues complete slabs to the device, in order. An error takes the
// place of its batch.
func (n *feeder) upload() {
	defer close(n.copied)
	defer func() { n.reader.Close() }()
	l := n.loader
	var queueing *read.Job
	var queues probe.Mark
	defer func() {
		if queueing != nil { // a callback or the dataset ended this goroutine
			queues.End(n.uploads, probe.Span{Name: "upload", Batch: queueing.N + 1})
			l.offer(&Batch{n: queueing.N, err: fmt.Errorf("loader: %w while a batch was queued", usercode.ErrGoexit)})
		}
	}()
	for {
		j, ok := n.next()
		if !ok {
			return
		}
		waits := probe.Begin(n.uploads, "wait for samples")
		receive(l.ctx, j.Ready())
		waits.End(n.uploads, probe.Span{Name: "wait for samples", Batch: j.N + 1})
		if l.ctx.Err() != nil {
			return
		}
		queues = probe.Begin(n.uploads, "upload")
		queueing = j
		b, err := n.batch(j)
		queueing = nil
		queues.End(n.uploads, probe.Span{Name: "upload", Batch: j.N + 1, Samples: len(j.Indexes)})
		if err != nil {
			b = &Batch{n: j.N, err: err}
		}
		if b != nil && !l.offer(b) || err != nil {
			return
		}
	}
}

// next returns the next job to queue. Jobs that come in any order still come
// epoch by epoch.
func (n *feeder) next() (*read.Job, bool) {
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
	if i := slices.IndexFunc(n.later, func(j *read.Job) bool { return j.Epoch == n.epoch }); i >= 0 {
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
		if j.Epoch == n.epoch {
			n.left--
			return j, true
		}
		n.later = append(n.later, j)
	}
}

// share is how many batches of an epoch are for this feeder.
func (n *feeder) share(epoch int) (count int) {
	l := n.loader
	for b := epoch * l.order.perEpoch; b < (epoch+1)*l.order.perEpoch; b++ {
		if b >= l.first && !l.skip[b] && l.feeders[b%len(l.feeders)] == n {
			count++
		}
	}
	return count
}

// batch queues what j has read to the device. It returns nil after the end of a
// stream.
func (n *feeder) batch(j *read.Job) (b *Batch, err error) {
	defer usercode.Recover(&err, "loader: while a batch was queued")
	l := n.loader
	if j.Err != nil {
		return nil, j.Err
	}
	if j.Files != nil {
		j.Files.Claim()
		if j.Failed() {
			j.Files.Wait() // samples change places
		}
	}
	if err := n.settle(j); err != nil {
		return nil, err
	}
	if j.Ended && !n.cutOff(j) {
		return nil, nil
	}
	b = &Batch{Device: n.dev, DType: l.options.DType, Epoch: j.Epoch, Number: j.Number, n: j.N}
	if len(j.Indexes) == 0 {
		n.free <- place{j.Slab, j.Files}
		return nothing(j), nil
	}
	waits := probe.Begin(n.uploads, "wait for a device buffer")
	d, ok := n.takeBuffer()
	waits.End(n.uploads, probe.Span{Name: "wait for a device buffer", Batch: j.N + 1})
	if !ok {
		return nil, l.ctx.Err()
	}
	d.holder.Store(withLoader)
	if err := n.waitUsed(d); err != nil {
		return nil, err
	}
	t, err := n.decode(d, j)
	if err != nil {
		return nil, err
	}
	if len(j.Indexes) == 0 { // the device refused all, and so did the CPU
		n.free <- place{j.Slab, j.Files}
		d.holder.Store(free)
		n.buffers <- d
		return nothing(j), nil
	}
	if b.Mix, err = l.write(t, j); err != nil {
		return nil, err
	}
	if err := n.queue(d, j, t); err != nil {
		return nil, err
	}
	count := len(j.Indexes)
	b.Indexes, b.Labels, b.Lengths = j.Indexes, j.Labels, j.Samples.Lengths
	b.Data = d.data
	b.Shape = n.form.batchShape(count, j.Samples.Rows)
	b.Bytes = int64(count*j.Samples.Rows) * n.form.rowBytes
	b.DeviceLabels = d.raw + device.Ptr(t.Labels)
	if j.Samples.Lengths != nil {
		b.DeviceLengths = d.raw + device.Ptr(t.Lengths)
	}
	if l.options.Mask {
		b.DeviceMask = d.raw + device.Ptr(t.Mask)
	}
	if b.Mix != nil {
		b.DeviceMix = d.raw + device.Ptr(t.Mix)
	}
	b.Targets = targetsIn(d, j, t)
	b.buffer = d
	b.complete = make(chan struct{})
	b.refs.Store(1)
	free := d.events.copied
	if n.decoder != nil {
		free = d.events.complete // files and tables are in use until then
	}
	n.copied <- inFlight{b, place{j.Slab, j.Files}, free} // never blocks: there is room for every slab
	return b, nil
}

// queue queues the copy of a slab to d and the transform that makes the batch's
// data of it.
func (n *feeder) queue(d *deviceBuffer, j *read.Job, t slab.Tail) error {
	from := 0
	if n.decoder != nil {
		from = j.TargetsAt(t.Labels) // the samples are made on the device
	}
	host := j.Slab.Bytes[from:t.End]
	d.queued = int64(len(host))
	if n.decoder != nil {
		d.queued += n.decoder.SentBytes()
	}
	if err := n.send(d, d.raw+device.Ptr(from), host); err != nil {
		return err
	}
	if n.form.queue == nil {
		return n.copies.Record(d.events.complete)
	}
	if err := n.compute.Wait(d.events.copied); err != nil {
		return err
	}
	w := work{dst: d.data, src: d.raw, n: len(j.Indexes), rows: j.Samples.Rows}
	if t.Colours != 0 {
		w.colours = d.raw + device.Ptr(t.Colours)
	}
	if t.Mix != 0 {
		w.mix = d.raw + device.Ptr(t.Mix)
	}
	return device.Timed(n.compute, d.begin(d.events.transformBegin), d.events.complete, func() error {
		return n.form.queue(n.compute, w)
	})
}

// send queues the copy of host to dst, a part of d's raw memory, and the event behind
// it. A staged copy is done when send returns.
func (n *feeder) send(d *deviceBuffer, dst device.Ptr, host []byte) error {
	d.timed = n.timing(len(host))
	d.staged = n.staging.Takes(len(host))
	if !d.staged {
		return device.Timed(n.copies, d.begin(d.events.copyBegin), d.events.copied, func() error {
			return n.copies.CopyH2D(dst, host)
		})
	}
	// The last batch in d may still be in use: its labels and targets, and its
	// data unless they lie elsewhere.
	if err := n.copies.Synchronize(); err != nil {
		return err
	}
	start := time.Now()
	err := n.staging.Copy(n.loader.ctx, dst, host)
	n.loader.counters.copyTime.Add(int64(time.Since(start)))
	if err != nil {
		return err
	}
	return n.copies.Record(d.events.copied)
}

// begin is e where the batch is timed, else nil.
func (d *deviceBuffer) begin(e device.Event) device.Event {
	if d.timed == 0 {
		return nil
	}
	return e
}

// takeBuffer returns a free buffer, and among several, one that no work uses any
// more: the loader's streams would wait for that work, and all that is queued
// behind it would wait, too.
func (n *feeder) takeBuffer() (*deviceBuffer, bool) {
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

// waitUsed queues a wait for the work of the last callers on d.
func (n *feeder) waitUsed(d *deviceBuffer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	streams := []device.Stream{n.copies}
	if n.form.queue != nil || n.decoder != nil {
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

// write fills in what goes with the samples of j, and returns the weights of
// their mixtures.
func (l *Loader) write(t slab.Tail, j *read.Job) (mix []float32, err error) {
	j.Write(t)
	host := j.Slab.Bytes
	if t.Colours != 0 {
		colours := make([]kernels.Colour, len(j.Indexes))
		for slot, i := range j.Indexes {
			colours[slot] = kernels.Colour(l.jitter.Draw(l.key(j, i)))
		}
		if _, err := kernels.AppendColours(host[t.Colours:t.Colours], colours...); err != nil {
			return nil, err
		}
	}
	if t.Mix != 0 {
		mix = make([]float32, len(j.Indexes))
		for slot, i := range j.Indexes {
			if mix[slot] = 1; l.order.full(j.Number) {
				mix[slot] = drawMix(l.options.Mixup, l.key(j, i))
			}
		}
		if _, err := kernels.AppendMix(host[t.Mix:t.Mix], mix...); err != nil {
			return nil, err
		}
	}
	return mix, nil
}

// key is the key from which everything random about the visit of a sample is
// drawn.
func (l *Loader) key(j *read.Job, index int) uint64 {
	return sampler.Key(l.options.Seed, j.Epoch, index)
}
