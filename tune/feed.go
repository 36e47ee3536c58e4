package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/pinned"
)

// Options tune [Feed]. The zero value works.
type Options struct {
	// Space is the grid. Axes that are empty get a default: workers in powers
	// of two up to twice the processors, with three quarters of them; prefetch
	// 1, 2, 4 and 8; pinned and pageable memory where the device has a link,
	// and as Loader.Pin says; the batch size of Loader; decoding on "cpu" and
	// "gpu" where the device can decode the dataset's pictures, and as
	// Loader.Decode says; copiers in powers of two, from 2 to the processors and
	// 16 at most, and chunks of 512 KiB and 2 MiB, where the device has a link,
	// and as Loader says. Copiers and chunks that make no difference for slabs
	// of that size are left out.
	Space Space

	// Budget is how long trials may take together. Default: 30 s.
	Budget time.Duration

	// StepTime is how long the device uses a batch; Step instead does that
	// work, and returns when the device is through with the batch. With either
	// the question is whether the device waits for data. StepTime is slept,
	// on the side of the consumer, where it stands for the device's work; it
	// is that of one batch size, so Space may have only one.
	StepTime time.Duration
	Step     func(ctx context.Context, b *loader.Batch) error

	// Exhaustive measures the whole grid afterwards.
	Exhaustive bool

	// Loader is everything else: element type, shuffling, transforms. What is
	// searched for is ignored; Epochs too.
	Loader loader.Options

	// Seed of the search. Default: 0.
	Seed uint64

	// Progress, if set, is called before each trial.
	Progress func(spent, budget time.Duration, what string)
}

// Feed finds the setting to feed ds to dev with, by running loaders for a
// while. The device should have nothing else to do. Settings that need more
// memory than there is are results, not errors; see [Row].
func Feed(ctx context.Context, dev device.Device, ds dataset.Dataset, o Options) (result *Result, err error) {
	if dev == nil || ds == nil {
		return nil, fmt.Errorf("tune: %w: no device or no dataset", device.ErrArgument)
	}
	if o.StepTime < 0 || o.StepTime > 0 && o.Step != nil {
		return nil, fmt.Errorf("tune: %w: StepTime is %v, with a Step %v", device.ErrArgument, o.StepTime, o.Step != nil)
	}
	if o.Loader.Batch == loader.AutoBatch && o.Space.Batch == nil || slices.Contains(o.Space.Batch, loader.AutoBatch) {
		return nil, fmt.Errorf("tune: %w: AutoBatch is one size; tune compares those of Space.Batch", device.ErrArgument)
	}
	o.Space = o.space(dev)
	if err := o.Space.check(); err != nil {
		return nil, err
	}
	for _, place := range o.Space.Decode {
		if _, known := places[place]; !known {
			return nil, fmt.Errorf("tune: %w: decoding on %q, want cpu or gpu", device.ErrArgument, place)
		}
	}
	if o.StepTime > 0 && len(o.Space.Batch) > 1 {
		return nil, fmt.Errorf("tune: %w: a step of %v for batches of %v samples: its time is that of one size", device.ErrArgument, o.StepTime, o.Space.Batch)
	}
	if budget := o.budget(); o.StepTime > budget {
		return nil, fmt.Errorf("tune: %w: a step of %v takes longer than the budget of %v", device.ErrArgument, o.StepTime, budget)
	}
	if o.Loader.Batches != nil || o.Loader.Resume != nil {
		return nil, fmt.Errorf("tune: %w: batches of the caller's own, or a state to resume, leave nothing to try", device.ErrArgument)
	}
	f := &feed{dev: dev, ds: ds, o: o}
	spare := f.keepDecoder()
	defer func() { err = errors.Join(err, spare.Close()) }()
	if err := f.weigh(); err != nil {
		return nil, err
	}
	if err := f.findStaging(); err != nil {
		return nil, err
	}
	r, err := Search(ctx, f, f.o.Space, SearchOptions{
		Budget: o.Budget, Step: f.steps(), Exhaustive: o.Exhaustive, Seed: o.Seed, Progress: o.Progress,
	})
	if err != nil {
		return nil, err
	}
	r.Unread, r.Replaced = f.unread, f.replaced
	return r, nil
}

func (o *Options) budget() time.Duration { return cmp.Or(o.Budget, defaultBudget) }

// space fills in the axes that are empty.
func (o *Options) space(dev device.Device) Space {
	s := o.Space
	if s.Workers == nil {
		s.Workers = workerCounts(runtime.GOMAXPROCS(0))
	}
	if s.Batch == nil {
		s.Batch = []int{cmp.Or(o.Loader.Batch, 64)}
	}
	if s.Prefetch == nil {
		s.Prefetch = []int{1, 2, 4, 8}
	}
	hasLink := linked(dev)
	if s.Pin == nil {
		switch {
		case o.Loader.Pin == loader.PinAlways:
			s.Pin = []bool{true}
		case o.Loader.Pin == loader.PinNever, !hasLink:
			s.Pin = []bool{false}
		default:
			s.Pin = []bool{true, false}
		}
	}
	if !hasLink || s.Decode == nil && o.Loader.Decode == loader.DecodeGPU { // nothing is staged
		s.Copiers, s.ChunkBytes = nil, nil
		return s
	}
	if len(s.Copiers) == 0 {
		s.Copiers = copierCounts(runtime.GOMAXPROCS(0))
		if o.Loader.Copiers > 0 {
			s.Copiers = []int{o.Loader.Copiers}
		}
	}
	if len(s.ChunkBytes) == 0 {
		s.ChunkBytes = []int64{512 << 10, 2 << 20}
		if o.Loader.ChunkBytes > 0 {
			s.ChunkBytes = []int64{o.Loader.ChunkBytes}
		}
	}
	return s
}

// workerCounts lists the numbers of workers worth trying on that many
// processors. Twice as many can pay where workers wait for files.
func workerCounts(processors int) (list []int) {
	for n := 1; n < processors; n *= 2 {
		list = append(list, n)
	}
	list = append(list, max(processors*3/4, 1), processors, 2*processors)
	slices.Sort(list)
	return slices.Compact(list)
}

// feed is the pipeline of a loader.
type feed struct {
	dev     device.Device
	ds      dataset.Dataset
	o       Options
	tries   uint64
	visited int   // samples of this rank by all trials, those that were read ahead included
	host    int64 // bytes of a sample in a slab, with what goes with it
	device  int64 // bytes of a sample in all device buffers
	depth   int   // device buffers

	refused *DoesNotFitError // the least rings that could not be pinned

	unread, replaced int64 // samples of all trials that could not be read
}

// steps reports whether batches are used.
func (f *feed) steps() bool { return f.o.StepTime > 0 || f.o.Step != nil }

// places are the values of the axis of decoding.
var places = map[string]loader.DecodePlace{"cpu": loader.DecodeCPU, "gpu": loader.DecodeGPU}

// keepDecoder makes a loader that decodes on the device, where that may be tried,
// and fills in the axis of decoding with both places, if it is empty and there is
// such a loader. The decoder of the device, which takes long to make, is shared by
// all loaders, and is there for as long as this one.
func (f *feed) keepDecoder() (spare io.Closer) {
	none := io.NopCloser(nil)
	auto := f.o.Space.Decode == nil && f.o.Loader.Decode == loader.DecodeAuto
	asked := f.o.Space.Decode == nil && f.o.Loader.Decode == loader.DecodeGPU || slices.Contains(f.o.Space.Decode, "gpu")
	if _, pictures := dataset.As[dataset.Encoded](f.ds); !pictures || !auto && !asked {
		return none
	}
	o := f.o.Loader
	o.Batch, o.Workers, o.Prefetch, o.DeviceBuffers, o.Pin, o.Decode = 1, 1, 1, 1, loader.PinNever, loader.DecodeGPU
	ld, err := loader.New(f.dev, f.ds, o)
	if err != nil { // which trials say again, where it was asked for
		return none
	}
	if auto {
		f.o.Space.Decode = []string{"cpu", "gpu"}
	}
	return ld
}

// weigh asks the loader what a sample takes.
func (f *feed) weigh() error {
	const batch = 16 // parts of a slab are aligned to so many bytes
	o := f.o.Loader
	o.Batch, o.Workers, o.Prefetch, o.Pin, o.Epochs = min(batch, slices.Min(f.o.Space.Batch), f.epoch()), 1, 1, loader.PinNever, math.MaxInt
	ld, err := loader.New(f.dev, f.ds, o)
	if errors.Is(err, device.ErrOutOfMemory) { // as little as a loader can do with
		o.Batch, o.DeviceBuffers = 1, 1
		ld, err = loader.New(f.dev, f.ds, o)
	}
	if errors.Is(err, device.ErrOutOfMemory) {
		free, _ := f.dev.Memory()
		return fmt.Errorf("tune: not even one sample (%v) on %s: %w", f.ds.Spec(), f.dev.Info().ID,
			&DoesNotFitError{What: "device memory", AskedBytes: int64(f.ds.Spec().Bytes()), FreeBytes: free.FreeBytes, Cause: err})
	}
	if err != nil {
		return err
	}
	s := ld.Stats()
	up := func(bytes int64, n int) int64 { return (bytes + int64(n) - 1) / int64(n) }
	f.host, f.device, f.depth = up(s.HostBytes, s.Slabs*o.Batch), up(s.DeviceBytes, o.Batch), s.DeviceBuffers
	return ld.Close()
}

// epoch is how many samples an epoch has, those of other ranks left out. No
// batch has more.
func (f *feed) epoch() int {
	l := f.o.Loader
	n, ranks := f.ds.Len(), max(l.World, 1)
	if l.Sampler != nil {
		n = l.Sampler.Len()
	}
	if !l.DropLast {
		n += ranks - 1
	}
	return max(n/ranks, 1)
}

// slab is how many bytes the samples of a batch have on the host.
func (f *feed) slab(batch int) int64 { return times(int64(min(batch, f.epoch())), f.host) }

// pinBudget is how many bytes may be pinned; 0 is unknown. A pool's own budget
// is a quarter of what is free.
func (f *feed) pinBudget() int64 { return cmp.Or(f.o.Loader.PinBudget, sysmem.Available()/4) }

// deviceRoom is how many bytes of a device's memory batches may take.
func (f *feed) deviceRoom(memory device.Memory) int64 {
	if most := f.o.Loader.DeviceBudget; most > 0 {
		return min(most, memory.FreeBytes)
	}
	return memory.FreeBytes
}

// Need predicts the memory of a setting and compares it with what is free.
func (f *feed) Need(s Setting) (Memory, error) {
	batch := int64(min(s.Batch, f.epoch()))
	if f.o.Loader.DropLast && s.Batch > f.epoch() {
		return Memory{}, f.noBatch(s)
	}
	slabs := int64(min(s.Prefetch, math.MaxInt-1)) + 1
	if places := times(slabs, batch); int64(s.Workers) > places {
		return Memory{}, fmt.Errorf("%w: %d workers, and %d samples are read at a time", ErrDoesNotFit, s.Workers, places)
	}
	m := Memory{HostBytes: times(slabs, f.slab(s.Batch)), DeviceBytes: times(batch, f.device)}
	free, err := f.dev.Memory()
	if err != nil {
		return m, err
	}
	if room := f.deviceRoom(free); m.DeviceBytes > room {
		return m, &DoesNotFitError{What: "device memory", AskedBytes: m.DeviceBytes, FreeBytes: room}
	}
	if s.Pin {
		m.PinnedBytes = m.HostBytes
	} else if available := sysmem.Available(); available > 0 && m.HostBytes > available/2 { // as much as the loader takes
		return m, &DoesNotFitError{What: "host memory", AskedBytes: m.HostBytes, FreeBytes: available / 2}
	}
	if s.staged() {
		m.PinnedBytes = f.rings(s)
		m.HostBytes += min(m.PinnedBytes, math.MaxInt64-m.HostBytes)
	}
	if budget := f.pinBudget(); budget > 0 && m.PinnedBytes > budget {
		return m, &DoesNotFitError{What: "pinned memory", AskedBytes: m.PinnedBytes, FreeBytes: budget}
	}
	return m, nil
}

// Try runs a loader with s.
func (f *feed) Try(ctx context.Context, s Setting, r Run) (m Measurement, err error) {
	if err := f.known(s); err != nil {
		return m, err
	}
	start := time.Now()
	o := f.o.Loader
	o.Workers, o.Batch, o.Prefetch, o.Epochs = s.Workers, s.Batch, s.Prefetch, math.MaxInt
	o.Pin = loader.PinNever
	if s.Pin {
		o.Pin = loader.PinAlways
	}
	o.Copiers, o.ChunkBytes = s.Copiers, s.ChunkBytes
	if place, known := places[s.Decode]; known {
		o.Decode = place
	}
	// Other samples come first in each trial: else only the first of a large
	// dataset would be read, and lie in the page cache. A stream has but one
	// beginning.
	o.Seed += f.tries
	f.tries++
	if !o.Shuffle && f.ds.Len() != dataset.UnknownLen {
		if o.Sampler, err = f.onward(); err != nil {
			return m, err
		}
	}
	ld, err := loader.New(f.dev, f.ds, o)
	if err != nil {
		return m, f.short(s, err)
	}
	defer func() {
		err = errors.Join(err, ld.Close())
		m.Took = time.Since(start)
		done := ld.Stats()
		f.unread, f.replaced = f.unread+done.Errors, f.replaced+done.Replaced
		f.visited += int(done.Samples) + done.Slabs*s.Batch
	}()
	if err := f.asAsked(s, ld.Stats()); err != nil {
		return m, err
	}
	m, err = f.measure(ctx, ld, r)
	switch err {
	case io.EOF:
		err = f.noBatch(s)
	case nil:
		err = f.ringsShort(s, ld.Stats())
	}
	return m, f.short(s, err)
}

// times is the product of two sizes, or the largest number there is.
func times(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

// noBatch is the error of a batch that is larger than an epoch.
func (f *feed) noBatch(s Setting) error {
	return fmt.Errorf("%w: %d samples make no batch of %d", ErrDoesNotFit, f.epoch(), s.Batch)
}

// short makes of an error for want of memory one that says how much.
func (f *feed) short(s Setting, err error) error {
	need, _ := f.Need(s)
	switch {
	case errors.Is(err, device.ErrOutOfMemory):
		free, _ := f.dev.Memory()
		return &DoesNotFitError{"device memory", need.DeviceBytes, f.deviceRoom(free), err}
	case errors.Is(err, pinned.ErrBudget), errors.Is(err, device.ErrPinLimit):
		return &DoesNotFitError{"pinned memory", need.PinnedBytes, f.pinBudget(), err}
	}
	return err
}

// asAsked looks whether the loader made do with less than the setting.
func (f *feed) asAsked(s Setting, got loader.Stats) error {
	need, _ := f.Need(s)
	switch {
	case got.Slabs <= s.Prefetch:
		return &DoesNotFitError{What: "host memory", AskedBytes: need.HostBytes, FreeBytes: got.HostBytes}
	case got.DeviceBuffers < f.depth:
		return &DoesNotFitError{What: "device memory", AskedBytes: need.DeviceBytes, FreeBytes: got.DeviceBytes}
	}
	return nil
}

// measure takes batches for a while. The first ones are left out: the pipeline
// fills up.
func (f *feed) measure(ctx context.Context, ld *loader.Loader, r Run) (m Measurement, err error) {
	const warm = 2 // batches, or less where they take longer than a run
	start := time.Now()
	var begun time.Time
	var before loader.Stats
	device := standIn{step: f.o.StepTime}
	for n := 1; ; n++ {
		asked := time.Now()
		b, err := ld.Next(ctx)
		if err != nil {
			return m, err
		}
		came := time.Now()
		if before.Batches > 0 {
			m.DeviceWait += came.Sub(asked)
			if m.Elapsed = came.Sub(begun); m.Elapsed >= r.For {
				m.count(before, ld.Stats())
				return m, b.Release()
			}
		} else if n >= warm || came.Sub(start) > r.For {
			before, begun = ld.Stats(), came
		}
		used, err := f.use(ctx, b, r, &device, came.Sub(asked))
		if err != nil {
			return m, errors.Join(err, b.Release())
		}
		if before.Batches > 0 {
			m.Step += used
		}
		if err := b.Release(); err != nil {
			return m, err
		}
	}
}

// count fills in what was done between two looks at a loader.
func (m *Measurement) count(before, after loader.Stats) {
	done := after.Sub(before)
	m.Samples, m.Batches, m.LinkBytes = done.Samples, done.Batches, done.BytesToDevice
	for _, st := range done.Stages {
		m.Stages = append(m.Stages, Stage(st))
	}
}

// use is what the device does with a batch that was waited for, and how long
// that takes.
func (f *feed) use(ctx context.Context, b *loader.Batch, r Run, device *standIn, waited time.Duration) (time.Duration, error) {
	switch {
	case !r.Step:
		return 0, nil
	case f.o.Step != nil:
		start := time.Now()
		err := f.o.Step(ctx, b)
		return time.Since(start), err
	}
	return f.o.StepTime, device.use(ctx, time.Now(), waited)
}

// standIn is a device that uses each batch for the same time. It sleeps until
// points in time, not for stretches of it: what a sleep takes too long, the next
// one makes up for, since a device's step does not get longer because the host is
// busy.
type standIn struct {
	step time.Duration
	free time.Time // when the device is through with the batch before
}

// use sleeps through the step of a batch that came now, after it was waited for.
func (d *standIn) use(ctx context.Context, now time.Time, waited time.Duration) error {
	// Asked for late, by a sleep that took too long, it was there all the same.
	begin := d.free.Add(waited)
	if now.Sub(begin) > d.step {
		begin = now // the first, or one so late that there is nothing to make up for
	}
	d.free = begin.Add(d.step)
	timer := time.NewTimer(d.free.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
