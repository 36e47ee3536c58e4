package main

// #include "pinion.h"
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/loader"
)

// config is what pinion_loader_open reads: the arguments of pinion.DataLoader.
type config struct {
	Source     string          `json:"source"`
	Options    dataset.Options `json:"options"` // of the format
	Devices    []string        `json:"devices"`
	Batch      int             `json:"batch_size"`
	Shuffle    bool            `json:"shuffle"`
	Workers    int             `json:"num_workers"`
	Prefetch   int             `json:"prefetch"`
	DropLast   bool            `json:"drop_last"`
	Seed       uint64          `json:"seed"`
	DType      string          `json:"dtype"`
	Rank       int             `json:"rank"`
	World      int             `json:"world_size"`
	Buffers    int             `json:"device_buffers"`
	MaxBuffers int             `json:"max_device_buffers"`
}

// epochs is as many as nobody comes to the end of.
const epochs = 1 << 40

// feed is a loader that the caller has.
type feed struct {
	config  config
	dataset dataset.Dataset
	devices []device.Device
	labels  bool // whether the samples have any
	outbox  *C.pinion_outbox
	refs    atomic.Int64 // batches with the caller, and one for being open

	ctx    context.Context // ends when it is closed
	cancel context.CancelFunc
	mu     sync.Mutex // of those who take batches, or change the loader
	loader atomic.Pointer[loader.Loader]
}

var (
	feeds   handles[*feed]
	batches handles[lent]
)

// lent is a batch with the caller.
type lent struct {
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
	return start(task, undo, func(ctx context.Context) (uint64, error) {
		f, err := open(ctx, c)
		if err != nil {
			return 0, err
		}
		return feeds.add(f), nil
	})
}

func open(ctx context.Context, c config) (f *feed, err error) {
	f = &feed{config: c, outbox: C.pn_outbox_new()}
	f.refs.Store(1)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.dataset, err = dataset.Open(ctx, c.Source, c.Options); err != nil {
		return f, err
	}
	f.labels = labelled(f.dataset)
	for _, name := range c.Devices {
		dev, err := device.Open(name)
		if err != nil {
			return f, err
		}
		f.devices = append(f.devices, dev)
	}
	return f, f.begin(nil)
}

// begin makes the loader, in the place of one that there was.
func (f *feed) begin(state *loader.State) error {
	c := &f.config
	o := loader.Options{
		Batch: c.Batch, Shuffle: c.Shuffle, Workers: c.Workers, Prefetch: c.Prefetch, DropLast: c.DropLast, Seed: c.Seed,
		Rank: c.Rank, World: c.World, DeviceBuffers: c.Buffers, MaxDeviceBuffers: c.MaxBuffers,
		Epochs: epochs, Resume: state, StateAtEnd: loader.EmptyRest,
	}
	var err error
	if c.DType != "" {
		if o.DType, err = dtype.Parse(c.DType); err != nil {
			return fmt.Errorf("%w: %w", device.ErrArgument, err)
		}
	}
	if old := f.loader.Load(); old != nil {
		if err := old.Close(); err != nil {
			return err
		}
	}
	ld, err := loader.NewOn(f.devices, f.dataset, o)
	if err == nil {
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

// close ends everything but what batches with the caller need.
func (f *feed) close() error {
	f.cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	if ld := f.loader.Load(); ld != nil {
		errs = append(errs, ld.Close())
	}
	if f.dataset != nil {
		errs = append(errs, dataset.Close(f.dataset))
	}
	C.pn_outbox_close(f.outbox)
	return errors.Join(append(errs, f.drop())...)
}

// drop ends a use of the devices; the last one closes them.
func (f *feed) drop() error {
	if f.refs.Add(-1) > 0 {
		return nil
	}
	var errs []error
	for _, dev := range f.devices {
		errs = append(errs, dev.Close())
	}
	return errors.Join(errs...)
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
func pnLoaderNext(handle C.uint64_t, milliseconds, flags C.int32_t, out *C.pinion_batch) (result C.int) {
	defer guard(&result)
	f, ok := feeds.get(uint64(handle))
	if !ok {
		return closed("the DataLoader")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if flags&C.PINION_CAPTURE == 0 {
		drain(f.outbox)
	}
	ctx, cancel := context.WithTimeout(f.ctx, time.Duration(milliseconds)*time.Millisecond)
	defer cancel()
	b, err := f.next(ctx, flags&C.PINION_FRESH != 0)
	switch {
	case f.ctx.Err() != nil:
		return closed("the DataLoader")
	case errors.Is(err, context.DeadlineExceeded):
		return C.PINION_WAIT
	case err != nil:
		return fail(err)
	case b == nil:
		return C.PINION_END
	}
	f.refs.Add(1)
	f.lend(b, out)
	return C.PINION_OK
}

// next returns the next batch of an epoch, nil at its end. Fresh: of a new epoch,
// if this one was begun.
func (f *feed) next(ctx context.Context, fresh bool) (*loader.Batch, error) {
	ld := f.loader.Load()
	loop := ld.Rest
	if fresh {
		loop = ld.Epoch
	}
	for b, err := range loop(ctx) {
		return b, err
	}
	return nil, nil
}

// lend describes a batch to the caller.
func (f *feed) lend(b *loader.Batch, out *C.pinion_batch) {
	out.hold = C.pn_hold_new(f.outbox, C.uint64_t(batches.add(lent{b, f})))
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

// place is where a device's memory is, in terms of DLPack.
func place(dev device.Device) (kind, id C.int32_t) {
	if native, ok := device.As[device.Native](dev); ok && native.API() == device.CUDA {
		var n int32
		_, _ = fmt.Sscanf(dev.Info().ID, "cuda:%d", &n)
		return 2, C.int32_t(n)
	}
	return 1, 0
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

// drain gives back the batches whose last use has ended.
func drain(box *C.pinion_outbox) {
	for h := C.pn_outbox_take(box); h != nil; {
		var id C.uint64_t
		h = C.pn_hold_done(h, &id)
		b, ok := batches.take(uint64(id))
		if !ok {
			continue
		}
		_ = b.giveBack()
		_ = b.feed.drop()
	}
}

// giveBack gives a batch back behind the work that uses it.
func (b lent) giveBack() error {
	if kind, _ := place(b.Device); kind == 1 {
		return b.Release() // there is no work but the caller's own, which is done
	}
	return b.ReleaseAfterAll()
}

//export pnDrain
func pnDrain(box *C.pinion_outbox) {
	var result C.int
	defer guard(&result)
	drain(box)
}

//export pinion_loader_state
func pinion_loader_state(loader C.uint64_t, out **C.char) (result C.int) {
	defer guard(&result)
	f, ok := feeds.get(uint64(loader))
	if !ok {
		return closed("the DataLoader")
	}
	return f.tell(out, f.loader.Load().State())
}

// tell gives the caller JSON.
func (f *feed) tell(out **C.char, v any) C.int {
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
	return start(task, nil, func(context.Context) (uint64, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return 0, f.begin(&s)
	})
}

// info is what pinion_loader_info tells.
type info struct {
	Batches int           `json:"batches"` // of an epoch; -1: nobody knows
	Samples int           `json:"samples"` // of the dataset; -1: nobody knows
	Epoch   int           `json:"epoch"`   // of the next batch
	Classes []string      `json:"classes"`
	Devices []string      `json:"devices"`
	Shape   []int         `json:"shape"` // of a full batch
	DType   string        `json:"dtype"`
	Stats   loader.Stats  `json:"stats"`
	Waited  time.Duration `json:"waited"`
}

//export pinion_loader_info
func pinion_loader_info(loader C.uint64_t, out **C.char) (result C.int) {
	defer guard(&result)
	f, ok := feeds.get(uint64(loader))
	if !ok {
		return closed("the DataLoader")
	}
	ld := f.loader.Load()
	state, stats := ld.State(), ld.Stats()
	i := info{Batches: state.EpochBatches, Samples: f.dataset.Len(), Epoch: state.Epoch, Classes: dataset.Classes(f.dataset),
		Shape: stats.Shape, DType: stats.DType.String(), Stats: stats}
	if i.Samples == dataset.UnknownLen {
		i.Batches, i.Samples = -1, -1
	}
	for _, dev := range f.devices {
		i.Devices = append(i.Devices, dev.Info().ID)
	}
	return f.tell(out, i)
}
