package loader

import (
	"errors"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

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
		return j.nothing(), nil
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
		return j.nothing(), nil
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
	b.Targets = j.delivered(d, t)
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

// decode queues the decoding of j's pictures into d, where the device does
// that, and lays out what goes with the samples. What the device refuses is
// read by the CPU, and may be left out of j.
func (n *lane) decode(d *deviceBuffer, j *job) (t tail, err error) {
	l := n.loader
	for {
		t = l.tailOf(j.end(), len(j.indexes), j.rows)
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
		if len(j.targets) > 0 {
			from = j.targets[0].at
		}
	}
	host := j.slab.bytes[from:t.end]
	d.queued = int64(len(host))
	if n.decoding != nil {
		d.queued += n.decoding.sent
	}
	if err := n.send(d, d.raw+device.Ptr(from), host); err != nil {
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

// send queues the copy of host to dst, a part of d's raw memory; where it is
// staged, the copy is done when send returns.
func (n *lane) send(d *deviceBuffer, dst device.Ptr, host []byte) error {
	d.timed = n.timing(len(host))
	d.staged = n.staging.takes(len(host))
	if !d.staged {
		if d.timed > 0 {
			if err := n.copies.Record(d.marks[0]); err != nil {
				return err
			}
		}
		return n.copies.CopyH2D(dst, host)
	}
	// The last batch in d may be in use still: its labels and targets are,
	// where its data lie elsewhere.
	if err := n.copies.Synchronize(); err != nil {
		return err
	}
	start := time.Now()
	err := n.staging.copy(n.loader.ctx, dst, host)
	n.loader.counters.copyTime.Add(int64(time.Since(start)))
	return err
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
