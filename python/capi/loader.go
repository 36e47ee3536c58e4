package main

// #include "pinion.h"
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/cuda"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/recipe"
	"github.com/pinion-gpu/pinion/loader"
)

// config is what pinion_loader_open reads: the arguments of pinion.DataLoader. A
// zero value means what it means in [loader.Options].
type config struct {
	Source  string          `json:"source"`
	Options dataset.Options `json:"options"` // of the format
	Targets []string        `json:"targets"`
	Devices []string        `json:"devices"`
	Borrow  uint64          `json:"borrow"` // what device memory comes by; 0: the devices

	Batch    int    `json:"batch_size"`
	Shuffle  bool   `json:"shuffle"`
	Sampler  string `json:"sampler"`
	DropLast bool   `json:"drop_last"`
	InOrder  bool   `json:"in_order"`
	Seed     uint64 `json:"seed"`
	Rank     int    `json:"rank"`
	World    int    `json:"world_size"`

	DType  string    `json:"dtype"`
	Mean   []float64 `json:"mean"`
	Std    []float64 `json:"std"`
	Mixup  float64   `json:"mixup"`
	Pad    float64   `json:"pad"`
	PadTo  int       `json:"pad_to"`
	Mask   bool      `json:"mask"`
	Decode string    `json:"decode"`
	CPU    float64   `json:"cpu_share"`

	OnError       string  `json:"on_error"`
	SampleTimeout float64 `json:"sample_timeout"` // seconds

	Workers      int   `json:"num_workers"`
	Prefetch     int   `json:"prefetch"`
	Pin          bool  `json:"pin_memory"`
	PinBudget    int64 `json:"pin_budget"`
	DeviceBudget int64 `json:"device_budget"`
	Copiers      int   `json:"copiers"`
	Chunk        int64 `json:"chunk"`
	Buffers      int   `json:"device_buffers"`
	MaxBuffers   int   `json:"max_device_buffers"`
}

// options are those of a loader of ds that depend on nothing else.
func (c *config) options(ds dataset.Dataset) (o loader.Options, err error) {
	o = loader.Options{
		Batch: c.Batch, Shuffle: c.Shuffle, DropLast: c.DropLast, Unordered: !c.InOrder, Seed: c.Seed, Rank: c.Rank, World: c.World,
		Mean: c.Mean, Std: c.Std, Mixup: c.Mixup, Pad: c.Pad, PadTo: c.PadTo, Mask: c.Mask, CPUShare: c.CPU,
		SampleTimeout: time.Duration(c.SampleTimeout * float64(time.Second)),
		Workers:       c.Workers, Prefetch: c.Prefetch, PinBudget: c.PinBudget, DeviceBudget: c.DeviceBudget,
		Copiers: c.Copiers, ChunkBytes: c.Chunk, DeviceBuffers: c.Buffers, MaxDeviceBuffers: c.MaxBuffers,
		Epochs: epochs, StateAtEnd: loader.EmptyRest,
	}
	if once(ds) != nil {
		o.Epochs = 1
	}
	if !c.Pin {
		o.Pin = loader.PinNever
	}
	if c.DType != "" {
		if o.DType, err = dtype.Parse(c.DType); err != nil {
			return o, fmt.Errorf("%w: %w", errs.ErrArgument, err)
		}
	}
	if o.OnError, err = recipe.Find("on_error", c.OnError, recipe.Policies); err != nil {
		return o, err
	}
	if o.Decode, err = recipe.Find("decode", c.Decode, recipe.DecodePlaces); err != nil {
		return o, err
	}
	if err := recipe.CheckDepth(ds, o.DType, "depth", "dtype"); err != nil {
		return o, err
	}
	return o, recipe.Order(&o, ds, c.Sampler, c.Batch)
}

// epochs is as many as nobody comes to the end of.
const epochs = 1 << 40

// once says why a dataset has one epoch only; nil: it has more.
func once(ds dataset.Dataset) error {
	if ds.Len() != dataset.UnknownLen {
		return nil
	}
	if r, ok := dataset.As[dataset.Repeater](ds); ok {
		return r.Repeats()
	}
	return fmt.Errorf("%w: a stream that is read once", errs.ErrArgument)
}

// feed is a loader that the caller has.
type feed struct {
	dataset dataset.Dataset
	targets []dataset.Dataset
	opened  []dataset.Dataset // of the targets, those to close
	options loader.Options
	devices []device.Device
	cuda    bool // whether one of them is CUDA's
	labels  bool // whether the samples have any
	outbox  *C.pinion_outbox
	refs    atomic.Int64 // batches with the caller, and one for being open
	borrow  *borrow      // nil: device memory is the devices' own
	lender  uint64       // its handle

	ctx    context.Context // ends when it is closed
	cancel context.CancelFunc
	mu     chan struct{} // has room for one: who takes batches, or changes the loader
	loader atomic.Pointer[loader.Loader]
	begun  bool // whether a loop has
}

var (
	feeds handles[*feed]
	lents handles[lent]
)

// lent is what a hold keeps: memory with the caller. The stream of giveBack is
// that of pinion_loader_next.
type lent interface{ giveBack(stream int64) error }

// fed is a batch with the caller.
type fed struct {
	*loader.Batch
	feed *feed
}

// pinion_loader_open opens what arguments (a config as JSON) say, as a task whose
// value is the loader.
//
//export pinion_loader_open
func pinion_loader_open(arguments *C.char, n C.int64_t, task *C.uint64_t) (result C.int) {
	defer guard(&result)
	var c config
	if err := parse(arguments, n, &c); err != nil {
		return fail(err)
	}
	undo := func(handle uint64) {
		if f, ok := feeds.take(handle); ok {
			_ = f.close()
		}
	}
	from, _ := borrows.get(c.Borrow)
	return startWith(from, task, undo, func(ctx context.Context) (uint64, error) {
		f, err := open(ctx, c)
		if err != nil {
			return 0, err
		}
		return feeds.add(f), nil
	})
}

func open(ctx context.Context, c config) (f *feed, err error) {
	f = &feed{outbox: C.pn_outbox_new(), mu: make(chan struct{}, 1)}
	f.refs.Store(1)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	if b, ok := borrows.get(c.Borrow); ok {
		f.borrow, f.lender, b.ctx = b, c.Borrow, f.ctx
	}
	defer context.AfterFunc(ctx, f.cancel)() // one that is given up needs no memory
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.dataset, err = dataset.Open(ctx, c.Source, c.Options); err != nil {
		return f, err
	}
	f.labels = labelled(f.dataset)
	if labels := dataset.Targets(f.dataset); labels != nil {
		f.targets = append(f.targets, labels)
	}
	for _, path := range c.Targets {
		ds, err := recipe.OpenTarget(ctx, path, f.dataset, nil)
		if err != nil {
			return f, fmt.Errorf("targets: %w", err)
		}
		f.targets, f.opened = append(f.targets, ds), append(f.opened, ds)
	}
	if f.options, err = c.options(f.dataset); err != nil {
		return f, err
	}
	f.options.Targets = f.targets
	for _, name := range c.Devices {
		dev, err := device.Open(name)
		if err != nil {
			return f, err
		}
		if f.borrow != nil {
			dev = newBorrowing(dev, f.borrow)
		}
		dev = onTimeline(dev)
		f.devices = append(f.devices, dev)
		kind, _ := place(dev)
		f.cuda = f.cuda || kind == cudaMemory
	}
	return f, f.begin(nil)
}

// begin makes the loader, in the place of one that there was. After an error
// there is one where that was.
func (f *feed) begin(state *loader.State) error {
	o := f.options
	o.Resume = state
	old := f.loader.Load()
	if old != nil {
		if err := old.Close(); err != nil { // there may not be memory for both
			return err
		}
	}
	ld, err := loader.NewOn(f.devices, f.dataset, o)
	if err == nil {
		f.loader.Store(ld)
		return nil
	}
	if old != nil { // go on as before
		s := old.State()
		o.Resume = &s
		ld, again := loader.NewOn(f.devices, f.dataset, o)
		if again != nil {
			return errors.Join(err, again)
		}
		f.loader.Store(ld)
	}
	return err
}

// labelled reports whether samples have classes: whether some of a few thousand
// do.
func labelled(ds dataset.Dataset) bool {
	n := ds.Len()
	if n == dataset.UnknownLen || dataset.Classes(ds) != nil {
		return true
	}
	for i := 0; i < n; i += max(1, n/4096) {
		if ds.Label(i) >= 0 {
			return true
		}
	}
	return false
}

func (f *feed) unlock() { <-f.mu }

// close ends everything but what batches with the caller need.
func (f *feed) close() error {
	f.cancel()
	f.mu <- struct{}{}
	defer f.unlock()
	var failed []error
	if ld := f.loader.Load(); ld != nil {
		failed = append(failed, ld.Close())
	}
	for _, ds := range f.opened {
		failed = append(failed, dataset.Close(ds))
	}
	if f.dataset != nil {
		failed = append(failed, dataset.Close(f.dataset))
	}
	C.pn_outbox_close(f.outbox)
	if f.borrow != nil {
		borrows.take(f.lender)
		f.borrow.close()
	}
	return errors.Join(append(failed, f.drop())...)
}

// drop ends a use of the devices; the last one closes them.
func (f *feed) drop() error {
	if f.refs.Add(-1) > 0 {
		return nil
	}
	var failed []error
	for _, dev := range f.devices {
		failed = append(failed, dev.Close())
	}
	return errors.Join(failed...)
}

// pinion_loader_close closes a loader, as a task: what is being read has to end.
//
//export pinion_loader_close
func pinion_loader_close(loader C.uint64_t, task *C.uint64_t) (result C.int) {
	defer guard(&result)
	f, ok := feeds.take(uint64(loader))
	return start(task, nil, func(context.Context) (uint64, error) {
		if !ok {
			return 0, nil
		}
		return 0, f.close()
	})
}

//export pnLoaderNext
func pnLoaderNext(handle C.uint64_t, milliseconds, flags C.int32_t, stream C.int64_t, out *C.pinion_batch) (result C.int) {
	defer guard(&result)
	f, ok := feeds.get(uint64(handle))
	if !ok {
		return closed("the DataLoader")
	}
	ctx, cancel := context.WithTimeout(f.ctx, time.Duration(milliseconds)*time.Millisecond)
	defer cancel()
	if f.borrow != nil {
		if !f.borrow.watch(cancel) {
			return C.PINION_MEMORY
		}
		defer f.borrow.unwatch()
	}
	var b *loader.Batch
	var err error
	select {
	case f.mu <- struct{}{}:
		f.call(func() {
			defer f.unlock()
			b, err = f.batch(ctx, flags, int64(stream), out)
		})
	case <-ctx.Done(): // another call is at it, which was given up perhaps
		err = ctx.Err()
	}
	switch {
	case b != nil:
		return C.PINION_OK
	case f.ctx.Err() != nil:
		return closed("the DataLoader")
	case errors.Is(err, errWanted), f.borrow != nil && f.borrow.wanted():
		return C.PINION_MEMORY
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return C.PINION_WAIT
	case err != nil:
		return fail(err)
	}
	return C.PINION_END
}

// batch gives back what the caller is done with, and lends the next batch.
func (f *feed) batch(ctx context.Context, flags C.int32_t, stream int64, out *C.pinion_batch) (b *loader.Batch, err error) {
	if flags&C.PINION_CAPTURE == 0 {
		if err := drain(f.outbox, stream); err != nil {
			return nil, err
		}
	}
	if b, err = f.next(ctx, flags&C.PINION_FRESH != 0); b != nil {
		f.refs.Add(1)
		f.lend(b, out)
	}
	return b, err
}

// call calls fn. Calls of CUDA change the context of their thread, which for the
// caller's would be to change its device under PyTorch's feet. Another thread
// would have to wake up first, so what fn changes is put back.
func (f *feed) call(fn func()) {
	if b, inner := f.borrow, fn; b != nil {
		fn = func() { b.visit(inner) }
	}
	if f.cuda {
		cuda.Visit(fn)
	} else {
		fn()
	}
}

// next returns the next batch of an epoch, nil at its end. Fresh: of a new epoch,
// if this one was begun.
func (f *feed) next(ctx context.Context, fresh bool) (*loader.Batch, error) {
	ld := f.loader.Load()
	loop := ld.Rest
	if fresh {
		if f.begun {
			if err := once(f.dataset); err != nil {
				return nil, fmt.Errorf("a second epoch: %w", err)
			}
		}
		loop = ld.Epoch
	}
	for b, err := range loop(ctx) {
		f.begun = f.begun || err == nil
		return b, err
	}
	f.begun = true
	return nil, nil
}

// lend describes a batch to the caller.
func (f *feed) lend(b *loader.Batch, out *C.pinion_batch) {
	out.hold = C.pn_hold_new(f.outbox, C.uint64_t(lents.add(fed{b, f})))
	out.epoch, out.number, out.arrays = C.int32_t(b.Epoch), C.int32_t(b.Number), 0
	kind, id := place(b.Device)
	add := func(role C.int32_t, data device.Ptr, t dtype.DType, shape ...int) {
		if out.arrays == C.PINION_ARRAYS {
			return
		}
		a := &out.array[out.arrays]
		out.arrays++
		a.data, a.role, a.ndim, a.dtype = C.uint64_t(data), role, C.int32_t(min(len(shape), C.PINION_DIMS)), element(t)
		a.device_type, a.device_id = kind, id
		for i := range int(a.ndim) {
			a.shape[i] = C.int64_t(shape[i])
		}
	}
	n := b.Shape[0]
	add(C.PINION_SAMPLES, b.Data, b.DType, b.Shape...)
	if f.labels {
		add(C.PINION_LABELS, b.DeviceLabels, dtype.I32, n)
	}
	if b.DeviceLengths != 0 {
		add(C.PINION_LENGTHS, b.DeviceLengths, dtype.I32, n)
	}
	if b.DeviceMask != 0 {
		add(C.PINION_MASK, b.DeviceMask, dtype.U8, n, b.Shape[1])
	}
	if b.DeviceMix != 0 {
		add(C.PINION_MIX, b.DeviceMix, dtype.F32, n)
	}
	for _, t := range b.Targets {
		add(C.PINION_TARGET, t.Data, t.DType, t.Shape...)
		if t.DeviceLengths != 0 {
			add(C.PINION_TARGET_LENGTHS, t.DeviceLengths, dtype.I32, n)
		}
	}
}

// Kinds of memory, in terms of DLPack.
const (
	hostMemory = 1
	cudaMemory = 2
)

// place is where a device's memory is, in terms of DLPack.
func place(dev device.Device) (kind, id C.int32_t) {
	if native, ok := device.As[device.Native](dev); ok && native.API() == device.CUDA {
		var n int32
		_, _ = fmt.Sscanf(dev.Info().ID, "cuda:%d", &n)
		return cudaMemory, C.int32_t(n)
	}
	return hostMemory, 0
}

// element is an element type, in terms of DLPack.
func element(t dtype.DType) C.DLDataType {
	d := C.DLDataType{code: 0, bits: C.uint8_t(t.Size() * 8), lanes: 1}
	switch t {
	case dtype.F16, dtype.F32, dtype.F64:
		d.code = 2
	case dtype.BF16:
		d.code = 4
	case dtype.U8, dtype.U16:
		d.code = 1
	}
	return d
}

// drain gives back what is in an outbox: memory whose last use has ended. The
// stream is that of pinion_loader_next.
func drain(box *C.pinion_outbox, stream int64) error {
	var failed []error
	for h := C.pn_outbox_take(box); h != nil; {
		var id C.uint64_t
		h = C.pn_hold_done(h, &id)
		if l, ok := lents.take(uint64(id)); ok {
			failed = append(failed, l.giveBack(stream))
		}
	}
	return errors.Join(failed...)
}

// giveBack gives a batch back behind the work that uses it. On a device that is
// not the host, that is the work of all streams: the caller may have used any of
// them. An event behind it all costs no waiting.
func (b fed) giveBack(stream int64) error {
	return errors.Join(b.release(stream), b.feed.drop())
}

func (b fed) release(stream int64) error {
	native, ok := device.As[device.Native](b.Device)
	if !ok {
		return b.Release() // there is no work but the caller's own, which is done
	}
	if all, ok := device.As[device.ContextRecorder](b.Device); stream >= 0 && !(ok && all.CanRecordAll()) {
		if s, err := native.StreamOf(uintptr(stream)); err == nil {
			defer s.Close()
			return b.Release(s)
		}
	}
	return b.ReleaseAfterAll()
}

//export pnDrain
func pnDrain(box *C.pinion_outbox) {
	var result C.int
	defer guard(&result)
	elsewhere(func() { _ = drain(box, -1) }) // nobody is there to be told
}

//export pinion_loader_state
func pinion_loader_state(loader C.uint64_t, out **C.char) (result C.int) {
	defer guard(&result)
	f, ok := feeds.get(uint64(loader))
	if !ok {
		return closed("the DataLoader")
	}
	return tell(out, f.loader.Load().State())
}

// tell gives the caller JSON.
func tell(out **C.char, v any) C.int {
	b, err := json.Marshal(v)
	if err != nil {
		return fail(err)
	}
	*out = text(string(b))
	return C.PINION_OK
}

// pinion_loader_resume begins again where a state (as JSON) is, as a task.
//
//export pinion_loader_resume
func pinion_loader_resume(handle C.uint64_t, state *C.char, n C.int64_t, task *C.uint64_t) (result C.int) {
	defer guard(&result)
	f, ok := feeds.get(uint64(handle))
	if !ok {
		return closed("the DataLoader")
	}
	var s loader.State
	if err := parse(state, n, &s); err != nil {
		return fail(fmt.Errorf("%w: %w", loader.ErrState, err))
	}
	return startWith(f.borrow, task, nil, func(context.Context) (uint64, error) {
		f.mu <- struct{}{}
		defer f.unlock()
		return 0, f.begin(&s)
	})
}

// pinion_loader_seek has the next loop begin with an epoch, as a task; -1: with
// that which is next. Resumed: a loop goes on in the epoch that the loader is in,
// since it was just put there. Failed: the loader is made again, as one that
// failed says nothing else.
//
//export pinion_loader_seek
func pinion_loader_seek(handle C.uint64_t, epoch C.int64_t, resumed, failed C.int32_t, task *C.uint64_t) (result C.int) {
	defer guard(&result)
	f, ok := feeds.get(uint64(handle))
	if !ok {
		return closed("the DataLoader")
	}
	return startWith(f.borrow, task, nil, func(context.Context) (uint64, error) { return 0, f.seek(int(epoch), resumed != 0, failed != 0) })
}

func (f *feed) seek(epoch int, resumed, failed bool) error {
	f.mu <- struct{}{}
	defer f.unlock()
	s := f.loader.Load().State()
	next := s.Epoch
	if within := s.Batch > 0 || len(s.Ahead) > 0; within && !resumed {
		next++ // a loop that was left drops the rest of its epoch
	}
	if epoch < 0 {
		epoch = next
	}
	if next == epoch && !failed {
		return nil
	}
	s.Epoch, s.Batch, s.Ahead, s.Dropped, s.Rank, s.World = epoch, 0, nil, 0, 0, 0
	return f.begin(&s)
}

// info is what pinion_loader_info tells. Sizes are in bytes.
type info struct {
	Batches  int      `json:"batches"` // of an epoch; -1: nobody knows
	Samples  int      `json:"samples"` // of the dataset; -1: nobody knows
	Batch    int      `json:"batch_size"`
	Classes  []string `json:"classes"`
	Devices  []string `json:"devices"`
	Warnings []string `json:"warnings"`
	CUDA     bool     `json:"cuda"` // whether batches are in the memory of CUDA devices
}

//export pinion_loader_info
func pinion_loader_info(loader C.uint64_t, out **C.char) (result C.int) {
	defer guard(&result)
	f, ok := feeds.get(uint64(loader))
	if !ok {
		return closed("the DataLoader")
	}
	ld := f.loader.Load()
	i := info{CUDA: f.cuda, Batches: ld.State().EpochBatches, Samples: f.dataset.Len(), Batch: ld.Stats().Batch,
		Classes: dataset.Classes(f.dataset), Warnings: dataset.Warnings(f.dataset)}
	if i.Samples == dataset.UnknownLen {
		i.Batches, i.Samples = -1, -1
	}
	for _, dev := range f.devices {
		i.Devices = append(i.Devices, dev.Info().ID)
	}
	return tell(out, i)
}

// statistics are what pinion_loader_stats tells, in the words of `pinion feed`.
type statistics struct {
	Samples       int64              `json:"samples"`
	Batches       int64              `json:"batches"`
	Errors        int64              `json:"errors"`
	BytesToDevice int64              `json:"to_device_bytes"`
	DeviceWait    float64            `json:"device_wait_seconds"`
	Stages        map[string]float64 `json:"stages_seconds"`
	Workers       int                `json:"workers"`
	Ready         int                `json:"ready_batches"`
	DeviceBuffers int                `json:"device_buffers"`
	HostBytes     int64              `json:"host_bytes"`
	DeviceBytes   int64              `json:"device_bytes"`
	Pinned        bool               `json:"pinned"`
	PageableWhy   string             `json:"pageable_why"`
	DecodeDevice  bool               `json:"decode_on_device"`
	DecodeWhy     string             `json:"decode_why"`
	Taken         int64              `json:"taken_pictures"` // from the device, by workers
	Unread        []unread           `json:"unread"`
}

// unread is a sample that was left out or replaced.
type unread struct {
	Index int    `json:"index"`
	Name  string `json:"name"`
	Error string `json:"error"`
}

//export pinion_loader_stats
func pinion_loader_stats(loader C.uint64_t, out **C.char) (result C.int) {
	defer guard(&result)
	f, ok := feeds.get(uint64(loader))
	if !ok {
		return closed("the DataLoader")
	}
	ld := f.loader.Load()
	s := ld.Stats()
	report := statistics{s.Samples, s.Batches, s.Errors, s.BytesToDevice, s.DeviceWait.Seconds(), map[string]float64{}, s.Workers, s.Ready,
		s.DeviceBuffers, s.HostBytes, s.DeviceBytes, s.Pinned, s.PageableWhy, s.DecodeDevice, s.DecodeWhy, s.TakenPictures, nil}
	for _, stage := range s.Stages {
		report.Stages[stage.Name] = stage.Time.Seconds()
	}
	for _, e := range ld.Unread() {
		report.Unread = append(report.Unread, unread{e.Index, e.Name, e.Err.Error()})
	}
	return tell(out, report)
}
