package loader

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/live"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/loader/internal/read"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
	"github.com/pinion-gpu/pinion/pinned"
)

// Loader feeds the batches of a dataset to devices.
type Loader struct {
	layout   slab.Layout // the dataset, what goes with its samples, and where all of it goes
	digest   string      // of the dataset and the targets
	identity State       // at the start: what every state of the loader belongs to
	samples  int         // of the dataset
	options  Options
	order    order
	batchWhy string          // why AutoBatch is the number that it is
	feeders  []*feeder       // one a device
	endless  bool            // a stream: nobody knows how many samples there are
	encoded  dataset.Encoded // where devices may decode; else nil
	jitter   imaging.Jitter

	lifetime sync.Mutex // held while a run begins and ends
	*run                // the goroutines, and what belongs to them
	times    read.Times // of all runs
	counters counters
	unread   unread

	// These belong to Next and to loops: why there are no more batches, whether
	// the last loop was left early, and whether the state that was resumed asks
	// for an empty rest.
	failure   error
	leftEarly bool
	emptyRest bool

	position sync.Mutex
	done     int          // batches before this one are with the caller
	ahead    map[int]bool // and so are these
	atEnd    bool         // the last batch was the last of its epoch, and nobody went on since
	dropped  int          // epochs that loops left early
	gap      int          // numbers before done that no batch has: those behind the end of a stream's epochs

	closing sync.RWMutex // held for reading in Release
	closed  bool
	gone    chan struct{} // closed when Close is through
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
		layout:  slab.Layout{Samples: slab.NewSource(ds), Mask: options.Mask, Mix: options.Mixup > 0},
		samples: ds.Len(), options: options,
		ahead: map[int]bool{}, gone: make(chan struct{}),
	}
	if err := l.describe(); err != nil {
		return nil, err
	}
	if options.Batch != AutoBatch {
		if err := l.plan(); err != nil {
			return nil, err
		}
	}
	if err := l.prepare(devices); err != nil {
		return nil, errors.Join(err, l.giveBack())
	}
	l.start()
	live.Add(l)
	return l, nil
}

// describe works out what a sample is, with all that goes with it.
func (l *Loader) describe() (err error) {
	samples := &l.layout.Samples
	l.endless = l.samples == dataset.UnknownLen
	if s, ok := dataset.As[dataset.Seeder](l.dataset()); ok {
		s.SetSeed(l.options.Seed)
	}
	if err := l.checkStream(); err != nil {
		return err
	}
	if err := samples.Check(); err != nil {
		return fmt.Errorf("loader: %w", err)
	}
	if l.layout.Targets, err = slab.NewTargets(l.options.Targets, l.samples); err != nil {
		return fmt.Errorf("loader: %w", err)
	}
	if l.options.PadTo > 0 {
		l.layout.PadTo, samples.Rows = l.options.PadTo, l.options.PadTo
	}
	if samples.Pad, err = slab.NewPadding(l.options.Pad, samples.Spec.DType); err != nil {
		return fmt.Errorf("loader: %w", err)
	}
	if err := l.describeImages(); err != nil {
		return err
	}
	if l.digest, err = l.datasetDigest(); err != nil {
		return fmt.Errorf("loader: %w", err)
	}
	return nil
}

// plan works out the batches, and everything else that needs no memory.
func (l *Loader) plan() (err error) {
	if l.order, err = newOrder(l.dataset(), l.options); err != nil {
		return err
	}
	l.layout.Largest = l.order.largest
	if err := l.layout.Check(); err != nil {
		return fmt.Errorf("loader: %w", err)
	}
	l.identity = l.startState()
	if s := l.options.Resume; s != nil {
		if err := l.resume(*s); err != nil {
			return err
		}
	}
	// Checked here, so that it does not depend on whether the device pins at all.
	if o, slab := &l.options, pagemem.RoundUp(l.layout.Bytes()); o.Pin != PinNever && o.PinBudget > 0 && o.PinBudget < slab {
		return fmt.Errorf("loader: %w: PinBudget is %s, and one batch of %s takes %s", pinned.ErrBudget, units.Bytes(o.PinBudget), units.Count(l.order.largest, "sample"), units.Bytes(slab))
	}
	setDefault(&l.options.Prefetch, int(max(2, min(4, prefetchBytes/l.layout.Bytes()))))
	// Nothing needs more room than there are batches.
	l.options.Prefetch = min(l.options.Prefetch, max(l.order.total, 1))
	// One more than there are batches lets a caller who holds all of them see the
	// end.
	most := min(mostBuffers-1, max(l.order.total, 1)) + 1
	l.options.DeviceBuffers = min(l.options.DeviceBuffers, most)
	l.options.MaxDeviceBuffers = max(l.options.DeviceBuffers, min(l.options.MaxDeviceBuffers, most))
	return nil
}

// describeImages works out what concerns images alone.
func (l *Loader) describeImages() error {
	spec := l.layout.Samples.Spec
	encoded, ok := dataset.As[dataset.Encoded](l.dataset())
	if l.jitter = l.options.Jitter; l.jitter == (imaging.Jitter{}) {
		transforms := dataset.Transforms(l.dataset())
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
	l.layout.Decoded, l.layout.Colours = l.encoded != nil, l.jitter != (imaging.Jitter{})
	colours := isImage(spec) && spec.Shape[2] == 3
	switch {
	case l.layout.Colours && !colours:
		return fmt.Errorf("loader: %w: samples of %v have no colours to change", device.ErrArgument, spec)
	case l.options.Mixup > 0 && !isImage(spec):
		return fmt.Errorf("loader: %w: samples of %v are not mixed, only images are", device.ErrArgument, spec)
	case l.options.Mixup > 0 && l.options.World > 1 && l.options.Batches == nil && l.options.Batch%2 != 0:
		return fmt.Errorf("loader: %w: with Mixup and %d ranks Batch has to be even, so that both samples of a pair are on one rank; it is %d", device.ErrArgument, l.options.World, l.options.Batch)
	case !(l.options.Mixup >= 0 && l.options.Mixup <= maxMixup):
		return fmt.Errorf("loader: %w: Mixup is %v, want 0 to %d", device.ErrArgument, l.options.Mixup, maxMixup)
	case !(l.options.CPUShare >= 0 && l.options.CPUShare <= 1) && l.options.CPUShare != AutoShare:
		return fmt.Errorf("loader: %w: CPUShare is %v, want 0 to 1, or AutoShare", device.ErrArgument, l.options.CPUShare)
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
		n, err := l.newFeeder(dev)
		l.feeders = append(l.feeders, n)
		if err != nil {
			return err
		}
		decodes = decodes || n.decoder != nil
	}
	if !decodes {
		l.encoded, l.layout.Decoded = nil, false
	}
	if l.options.Batch == AutoBatch {
		if err := l.chooseBatch(); err != nil {
			return err
		}
		if err := l.plan(); err != nil {
			return err
		}
	}
	places := 0
	for _, n := range l.feeders {
		if err := n.takeMemory(); err != nil {
			return err
		}
		places += len(n.slabs.All)
	}
	// More workers than places to fill would have nothing to do.
	if l.options.Workers/places >= l.order.largest {
		l.options.Workers = places * l.order.largest
	}
	return nil
}

// Devices returns the devices that batches go to, in turn.
func (l *Loader) Devices() []device.Device {
	list := make([]device.Device, len(l.feeders))
	for i, n := range l.feeders {
		list[i] = n.dev
	}
	return list
}

// ended reports whether the loader is closed.
func (l *Loader) ended() bool {
	l.closing.RLock()
	defer l.closing.RUnlock()
	return l.closed
}

// dataset is that of the samples.
func (l *Loader) dataset() dataset.Dataset { return l.layout.Samples.Dataset }

// Close stops the workers, waits for what is queued on the devices and frees
// the loader's memory. Batches that the caller still holds stay as they are:
// the memory of each is freed by its last Release, or when its device is
// closed. Close waits for samples that are being read, except those that have
// exceeded their time limit. A second Close only waits for the first.
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
	l.lifetime.Lock()
	defer l.lifetime.Unlock()
	l.run.end()
	live.Remove(l)
	return l.giveBack()
}

// giveBack gives everything back. Nothing runs any more.
func (l *Loader) giveBack() error {
	var errs []error
	for _, n := range l.feeders {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}
