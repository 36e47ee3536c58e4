package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
)

// Loader feeds the batches of a dataset to a device.
type Loader struct {
	dev     device.Device
	ds      dataset.Dataset
	samples int // of the dataset
	options Options
	full    int          // samples of a full batch; options.Batch is less for a smaller dataset
	spec    dataset.Spec // of a sample as read
	form    *transform

	slabs   *slabs
	copies  device.Stream
	compute device.Stream

	ctx      context.Context // ends when the loader closes or fails
	stop     context.CancelFunc
	running  sync.WaitGroup
	free     chan *slab         // slabs that can be filled
	work     chan task          // samples to read
	ordered  chan *job          // batches being read, in order
	copied   chan passage       // slabs on their way to the device, in order
	buffers  chan *deviceBuffer // device buffers that can be filled
	ready    chan *Batch        // batches queued to the device, in order
	made     []*deviceBuffer    // every device buffer
	held     atomic.Int64       // batches with the caller
	arriving *Batch             // taken from ready, not complete when the context of Next ended
	failure  error              // why the loader ended early; set before ready is closed

	closing sync.RWMutex // held for reading in Release
	closed  bool
	gone    chan struct{} // closed when Close is through

	counters counters
}

// job is a batch that is being read.
type job struct {
	epoch, number int
	indexes       []int
	labels        []int32 // of each sample
	slab          *slab
	errs          []error // of each sample
	left          atomic.Int64
	ready         chan struct{} // closed when left is zero
}

// task is one sample of a job.
type task struct {
	job  *job
	slot int
}

// passage is a slab whose copy ends at an event.
type passage struct {
	slab *slab
	end  device.Event
}

// New makes a loader and starts to read. The dataset and the device must stay
// open until Close.
func New(dev device.Device, ds dataset.Dataset, options Options) (*Loader, error) {
	if dev == nil || ds == nil {
		return nil, fmt.Errorf("loader: %w: no device or no dataset", device.ErrArgument)
	}
	spec := ds.Spec()
	options, err := options.withDefaults(spec)
	if err != nil {
		return nil, err
	}
	n, sample := ds.Len(), int64(spec.Bytes())
	if n <= 0 || sample <= 0 {
		return nil, fmt.Errorf("loader: %w: the dataset has %d samples of %d bytes", device.ErrArgument, n, sample)
	}
	full := options.Batch
	options.Batch = min(full, n)
	if int64(options.Batch) > math.MaxInt64/sample/8 {
		return nil, fmt.Errorf("loader: %w: a batch of %d samples of %d bytes", device.ErrArgument, options.Batch, sample)
	}
	// No more of anything than there are batches for it.
	batches := (n + options.Batch - 1) / options.Batch
	if batches < math.MaxInt/options.Epochs {
		batches *= options.Epochs
	} else {
		batches = math.MaxInt - 1
	}
	options.Prefetch = min(options.Prefetch, batches)
	options.DeviceBuffers = min(options.DeviceBuffers-1, batches) + 1 // who holds all can still see the end
	l := &Loader{dev: dev, ds: ds, samples: n, options: options, full: full, spec: spec, gone: make(chan struct{})}
	if err := l.prepare(); err != nil {
		return nil, errors.Join(err, l.giveBack())
	}
	l.start()
	return l, nil
}

// prepare takes everything the loader needs from the device and the host.
func (l *Loader) prepare() (err error) {
	if l.form, err = newTransform(l.dev, l.spec, l.options); err != nil {
		return err
	}
	if l.copies, err = l.dev.NewStream(); err != nil {
		return err
	}
	if l.compute, err = l.dev.NewStream(); err != nil {
		return err
	}
	for range l.options.DeviceBuffers {
		d, err := l.newBuffer()
		if errors.Is(err, device.ErrOutOfMemory) && len(l.made) > 0 {
			break // less overlap than wished for
		}
		if err != nil {
			return fmt.Errorf("loader: device memory for one batch of %d samples: %w", l.options.Batch, err)
		}
		l.made = append(l.made, d)
	}
	if l.slabs, err = makeSlabs(l.dev, l.options.Prefetch+1, l.slabBytes(), l.options.Pin, l.options.PinBudget); err != nil {
		return err
	}
	// More workers than places to fill would have nothing to do.
	if places := len(l.slabs.all); l.options.Workers/places >= l.options.Batch {
		l.options.Workers = places * l.options.Batch
	}
	return nil
}

// slabBytes is the size of a full batch as read.
func (l *Loader) slabBytes() int64 { return int64(l.options.Batch) * int64(l.spec.Bytes()) }

// batchBytes is the size of a full batch as delivered.
func (l *Loader) batchBytes() int64 { return int64(l.options.Batch) * l.form.sampleBytes }

func (l *Loader) newBuffer() (*deviceBuffer, error) {
	d := &deviceBuffer{}
	err := func() (err error) {
		if d.data, err = l.dev.Alloc(l.batchBytes()); err != nil {
			return err
		}
		d.raw = d.data
		if l.form.queue != nil {
			if d.raw, err = l.dev.Alloc(l.slabBytes()); err != nil {
				return err
			}
		}
		for i := range d.marks {
			if d.marks[i], err = l.dev.NewEvent(device.EventBlockingSync); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil {
		return nil, errors.Join(err, l.freeBuffer(d))
	}
	return d, nil
}

func (l *Loader) freeBuffer(d *deviceBuffer) error {
	var errs []error
	if d.raw != 0 && d.raw != d.data {
		errs = append(errs, l.dev.Free(d.raw))
	}
	if d.data != 0 {
		errs = append(errs, l.dev.Free(d.data))
	}
	for _, e := range append(d.marks[:], d.used...) {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}

// start makes the channels and the goroutines.
func (l *Loader) start() {
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.free = make(chan *slab, len(l.slabs.all))
	for _, s := range l.slabs.all {
		l.free <- s
	}
	l.buffers = make(chan *deviceBuffer, len(l.made))
	for _, d := range l.made {
		l.buffers <- d
	}
	l.work = make(chan task, 2*l.options.Workers)
	l.ordered = make(chan *job, len(l.slabs.all))
	l.copied = make(chan passage, len(l.slabs.all))
	l.ready = make(chan *Batch, len(l.made))

	l.running.Go(l.schedule)
	for range l.options.Workers {
		l.running.Go(l.read)
	}
	l.running.Go(l.upload)
	l.running.Go(l.recycle)
}

// schedule hands the samples of every batch to the workers, as slabs come
// free.
func (l *Loader) schedule() {
	defer close(l.ordered)
	defer close(l.work)
	for epoch := range l.options.Epochs {
		if l.ctx.Err() != nil || l.options.DropLast && l.samples < l.full {
			return
		}
		list := order(l.samples, l.options.Shuffle, l.options.Seed, epoch)
		for number := 0; len(list) > 0; number++ {
			n := min(l.options.Batch, len(list))
			if n < l.full && l.options.DropLast {
				break
			}
			j := &job{
				epoch: epoch, number: number,
				indexes: list[:n:n], labels: make([]int32, n), errs: make([]error, n),
				ready: make(chan struct{}),
			}
			j.left.Store(int64(n))
			list = list[n:]
			var ok bool
			if j.slab, ok = receive(l.ctx, l.free); !ok {
				return
			}
			l.ordered <- j // never blocks: there is room for every slab
			for slot := range n {
				select {
				case l.work <- task{j, slot}:
				case <-l.ctx.Done():
					return
				}
			}
		}
	}
}

// receive is a receive that the end of ctx cuts short; ok is false then, and
// when c is closed.
func receive[T any](ctx context.Context, c <-chan T) (v T, ok bool) {
	select {
	case v, ok = <-c:
		return v, ok
	case <-ctx.Done():
		return v, false
	}
}

// upload queues complete slabs to the device, in order, and notes why it could
// not go on.
func (l *Loader) upload() {
	defer close(l.ready)
	defer close(l.copied)
	if err := l.uploadAll(); err != nil && l.ctx.Err() == nil {
		l.failure = err
		l.stop()
	}
}

func (l *Loader) uploadAll() (err error) {
	defer recoverAs(&err, "while batches were queued")
	for {
		j, ok := receive(l.ctx, l.ordered)
		if !ok {
			return nil
		}
		if receive(l.ctx, j.ready); l.ctx.Err() != nil {
			return nil
		}
		n, err := l.settle(j)
		if err != nil {
			return err
		}
		if n == 0 {
			l.free <- j.slab
		} else if err := l.send(j, n); err != nil {
			return err
		}
	}
}

// settle deals with the samples of j that could not be read: it fails, or
// closes the gaps they leave. It returns the number of samples left.
func (l *Loader) settle(j *job) (int, error) {
	bytes := l.spec.Bytes()
	n := 0
	for slot, err := range j.errs {
		if err != nil {
			if l.options.OnError == Fail || errors.Is(err, errNoReader) {
				return 0, err
			}
			l.counters.errors.Add(1)
			if l.options.OnSkip != nil {
				l.options.OnSkip(err)
			}
			continue
		}
		if n != slot {
			copy(j.slab.bytes[n*bytes:(n+1)*bytes], j.slab.bytes[slot*bytes:])
			j.indexes[n], j.labels[n] = j.indexes[slot], j.labels[slot]
		}
		n++
	}
	j.indexes, j.labels = j.indexes[:n], j.labels[:n]
	return n, nil
}

// send queues the n samples of j to the device and offers them as a batch.
func (l *Loader) send(j *job, n int) error {
	d, ok := l.takeBuffer()
	if !ok {
		return l.ctx.Err()
	}
	d.queued = int64(n) * int64(l.spec.Bytes())
	if err := l.queue(d, j.slab.bytes[:d.queued], n); err != nil {
		return err
	}
	b := &Batch{
		Data:    d.data,
		DType:   l.options.DType,
		Shape:   append([]int{n}, l.form.shape...),
		Bytes:   int64(n) * l.form.sampleBytes,
		Indexes: j.indexes,
		Labels:  j.labels,
		Epoch:   j.epoch,
		Number:  j.number,
		loader:  l,
		buffer:  d,
	}
	// Neither blocks: there is room for every slab and every buffer.
	l.copied <- passage{j.slab, d.marks[1]}
	l.ready <- b
	return nil
}

// queue queues the copy of host to d and what turns it into the batch's data.
func (l *Loader) queue(d *deviceBuffer, host []byte, n int) error {
	// What the caller of the last batch in this buffer queued comes first.
	last := l.copies
	if l.form.queue != nil {
		last = l.compute
	}
	for _, e := range d.used[:d.inUse] {
		if err := last.Wait(e); err != nil {
			return err
		}
	}
	d.inUse = 0

	if err := l.copies.Record(d.marks[0]); err != nil {
		return err
	}
	if err := l.copies.CopyH2D(d.raw, host); err != nil {
		return err
	}
	if err := l.copies.Record(d.marks[1]); err != nil {
		return err
	}
	if l.form.queue != nil {
		if err := l.compute.Wait(d.marks[1]); err != nil {
			return err
		}
		if err := l.compute.Record(d.marks[2]); err != nil {
			return err
		}
		if err := l.form.queue(l.compute, d.data, d.raw, n); err != nil {
			return err
		}
	}
	return last.Record(d.marks[3])
}

// recycle returns slabs to the workers when their copies are done.
func (l *Loader) recycle() {
	for p := range l.copied {
		if err := p.end.Synchronize(); err != nil {
			// The error is the device's, and Next reports it. The slab must
			// not be written while a copy may read it, so it stays away.
			continue
		}
		l.free <- p.slab
	}
}

// Next returns the next batch, complete in device memory, and [io.EOF] after
// the last one. It waits until there is one or ctx ends; nothing is lost then,
// and Next can be called again. It must not be called by two goroutines at
// once. With every device buffer in the caller's hands it fails with
// [ErrHeld]: release a batch first, or ask for more DeviceBuffers.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.ended() {
		return nil, errClosed
	}
	if held := l.held.Load(); held == int64(len(l.made)) {
		select {
		case <-l.ready: // nothing can be in it, so it is closed
			return nil, l.end()
		default:
			return nil, fmt.Errorf("loader: %w: %d of %d", ErrHeld, held, len(l.made))
		}
	}
	start := time.Now()
	defer func() { l.counters.deviceWait.Add(int64(time.Since(start))) }()
	if l.arriving == nil {
		select {
		case b, ok := <-l.ready:
			if !ok {
				return nil, l.end()
			}
			l.arriving = b
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b := l.arriving
	if err := device.Wait(ctx, b.buffer.marks[3]); err != nil {
		return nil, err
	}
	l.arriving = nil
	l.held.Add(1)
	l.counters.arrived(b)
	return b, nil
}

// end is what Next returns when no more batches come.
func (l *Loader) end() error {
	l.closing.RLock()
	defer l.closing.RUnlock()
	switch {
	case l.failure != nil:
		return l.failure
	case l.closed:
		return errClosed
	}
	return io.EOF
}

// ended reports whether the loader is closed.
func (l *Loader) ended() bool {
	l.closing.RLock()
	defer l.closing.RUnlock()
	return l.closed
}

var errClosed = fmt.Errorf("loader: %w", device.ErrClosed)

// Close stops the workers, waits for what is queued on the device and frees
// the loader's memory, batches that were not released included. It returns
// when the samples that are being read are finished. A second Close only waits
// for the first.
func (l *Loader) Close() error {
	l.closing.Lock()
	again := l.closed
	l.closed = true
	l.closing.Unlock()
	if again {
		<-l.gone
		return nil
	}
	defer close(l.gone)
	l.stop()
	l.running.Wait()
	return l.giveBack()
}

// giveBack gives everything back. Nothing runs any more.
func (l *Loader) giveBack() error {
	var errs []error
	for _, s := range []device.Stream{l.copies, l.compute} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	for _, d := range l.made {
		errs = append(errs, l.freeBuffer(d))
	}
	if l.form != nil {
		errs = append(errs, l.form.close())
	}
	if l.slabs != nil {
		errs = append(errs, l.slabs.close())
	}
	return errors.Join(errs...)
}
