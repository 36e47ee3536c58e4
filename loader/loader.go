package loader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
)

// Loader feeds the batches of a dataset to devices.
type Loader struct {
	source            // the dataset
	targets  []source // what goes with its samples
	digest   string   // of both
	identity State    // at the start: what every state of the loader belongs to
	samples  int      // of the dataset
	options  Options
	order    order
	lanes    []*lane         // one a device
	encoded  dataset.Encoded // where devices may decode; else nil
	jitter   imaging.Jitter

	ctx     context.Context // ends when the loader closes
	stop    context.CancelFunc
	running sync.WaitGroup
	desk    *desk       // samples to read
	ready   chan *Batch // batches queued to the devices, in the order of each

	// Next's own: batches of other devices that came before their turn, the
	// one that was taken but not complete when the context of Next ended, and
	// why there are no more.
	early    map[int]*Batch
	arriving *Batch
	failure  error
	judge    judge

	first    int          // the batch to begin with
	skip     map[int]bool // batches behind it that are not wanted
	position sync.Mutex
	done     int          // batches before this one are with the caller
	ahead    map[int]bool // and so are these

	sampleTime atomic.Int64 // nanoseconds, of late
	stuck      atomic.Int64 // reads that did not come back in time

	closing sync.RWMutex // held for reading in Release
	closed  bool
	gone    chan struct{} // closed when Close is through

	counters counters
}

// New makes a loader for one device and starts to read. The dataset and the
// device must stay open until Close.
func New(dev device.Device, ds dataset.Dataset, options Options) (*Loader, error) {
	return NewOn([]device.Device{dev}, ds, options)
}

// NewOn makes a loader that deals batches out to several devices in turn:
// batch n of the run, in order, goes to devices[n % len(devices)]. Each device
// has its own slabs and buffers, as many as the options say.
func NewOn(devices []device.Device, ds dataset.Dataset, options Options) (*Loader, error) {
	if len(devices) == 0 || ds == nil {
		return nil, fmt.Errorf("loader: %w: no device or no dataset", device.ErrArgument)
	}
	for _, d := range devices {
		if d == nil {
			return nil, fmt.Errorf("loader: %w: no device", device.ErrArgument)
		}
	}
	options, err := options.withDefaults(ds.Spec())
	if err != nil {
		return nil, err
	}
	l := &Loader{
		source: newSource(ds), samples: ds.Len(), options: options,
		early: map[int]*Batch{}, ahead: map[int]bool{}, gone: make(chan struct{}),
	}
	if err := l.plan(); err != nil {
		return nil, err
	}
	if err := l.prepare(devices); err != nil {
		return nil, errors.Join(err, l.giveBack())
	}
	l.start()
	return l, nil
}

// plan works out everything that needs no memory.
func (l *Loader) plan() (err error) {
	if err := l.source.check(); err != nil {
		return fmt.Errorf("loader: %w", err)
	}
	if l.targets, err = newTargets(l.options.Targets, l.samples); err != nil {
		return err
	}
	if l.options.PadTo > 0 {
		l.rows = l.options.PadTo
	}
	if l.pad, err = newPadding(l.options.Pad, l.spec.DType); err != nil {
		return err
	}
	if l.order, err = newOrder(l.ds, l.options); err != nil {
		return err
	}
	for _, s := range append([]source{l.source}, l.targets...) {
		if err := s.checkBatch(l.order.largest, 1+len(l.targets)); err != nil {
			return fmt.Errorf("loader: %w", err)
		}
	}
	if err := l.planImages(); err != nil {
		return err
	}
	if l.digest, err = l.datasetDigest(); err != nil {
		return fmt.Errorf("loader: %w", err)
	}
	l.identity = l.startState()
	if s := l.options.Resume; s != nil {
		if err := l.resume(*s); err != nil {
			return err
		}
	}
	l.first, l.skip = l.done, maps.Clone(l.ahead)
	l.judge = l.newJudge()
	setDefault(&l.options.Prefetch, int(max(2, min(4, prefetchBytes/l.slabBytes()))))
	// No more of anything than there are batches for it.
	l.options.Prefetch = min(l.options.Prefetch, max(l.order.total, 1))
	// Who holds all batches can still see the end.
	l.options.DeviceBuffers = min(l.options.DeviceBuffers-1, max(l.order.total, 1)) + 1
	return nil
}

// planImages works out what is special about images.
func (l *Loader) planImages() error {
	encoded, ok := dataset.EncodedOf(l.ds)
	if l.jitter = l.options.Jitter; l.jitter == (imaging.Jitter{}) {
		transforms := dataset.Transforms(l.ds)
		l.jitter = transforms[0].Jitter()
		for _, t := range transforms {
			if t.Jitter() != l.jitter {
				return fmt.Errorf("loader: %w: parts of the dataset are jittered by %+v and %+v; give one for all as Jitter", device.ErrArgument, l.jitter, t.Jitter())
			}
		}
	}
	if ok && l.options.Decode != DecodeCPU && l.options.SampleTimeout == 0 {
		l.encoded = encoded
	}
	colours := isImage(l.spec) && l.spec.Shape[2] == 3
	switch {
	case l.jitter != (imaging.Jitter{}) && !colours:
		return fmt.Errorf("loader: %w: samples of %v have no colours to change", device.ErrArgument, l.spec)
	case l.options.Mixup > 0 && !isImage(l.spec):
		return fmt.Errorf("loader: %w: samples of %v are not mixed, only images are", device.ErrArgument, l.spec)
	case !(l.options.Mixup >= 0 && l.options.Mixup <= maxMixup):
		return fmt.Errorf("loader: %w: Mixup is %v, want 0 to %d", device.ErrArgument, l.options.Mixup, maxMixup)
	}
	if err := l.jitter.Check(); err != nil {
		return fmt.Errorf("loader: %w: %w", device.ErrArgument, err)
	}
	return nil
}

// prepare takes everything the loader needs from the devices and the host.
func (l *Loader) prepare(devices []device.Device) error {
	decodes := false
	for _, dev := range devices {
		n, err := l.newLane(dev)
		l.lanes = append(l.lanes, n)
		if err != nil {
			return err
		}
		decodes = decodes || n.decoding != nil
	}
	if !decodes {
		l.encoded = nil
	}
	places := 0
	for _, n := range l.lanes {
		if err := n.takeMemory(); err != nil {
			return err
		}
		places += len(n.slabs.all)
	}
	// More workers than places to fill would have nothing to do.
	if l.options.Workers/places >= l.order.largest {
		l.options.Workers = places * l.order.largest
	}
	return nil
}

// start makes the channels and the goroutines.
func (l *Loader) start() {
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.desk = newDesk()
	buffers := 0
	for _, n := range l.lanes {
		n.open()
		buffers += len(n.made)
	}
	l.ready = make(chan *Batch, buffers)

	var schedules, reads, uploads sync.WaitGroup
	for _, n := range l.lanes {
		schedules.Go(n.schedule)
		uploads.Go(n.upload)
		l.running.Go(n.finish)
	}
	for range l.options.Workers {
		reads.Go(l.reads)
	}
	l.running.Go(func() {
		schedules.Wait()
		l.desk.close()
		reads.Wait()
		for _, n := range l.lanes {
			close(n.jobs)
		}
		uploads.Wait()
		close(l.ready)
	})
}

// offer gives a batch to Next; false when the loader ended.
func (l *Loader) offer(b *Batch) bool {
	select {
	case l.ready <- b:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// ended reports whether the loader is closed.
func (l *Loader) ended() bool {
	l.closing.RLock()
	defer l.closing.RUnlock()
	return l.closed
}

// Close stops the workers, waits for what is queued on the devices and frees
// the loader's memory, batches that were not released included. It returns
// when the samples that are being read are finished, but for those that are
// beyond their time limit. A second Close only waits for the first.
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
	for _, n := range l.lanes {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}
