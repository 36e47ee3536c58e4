package main

// #include "pinion.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// site is a device that tensors of the caller are on, with what moves them.
// There is one for each device that was named, for as long as the process lives.
type site struct {
	dev    device.Device
	native device.Native // nil: there are no streams but Pinion's own
	pool   *pinned.Pool
	engine *transfer.Engine

	mu    sync.Mutex    // held from a mark to the wait for it
	fence device.Stream // waits for the work of everybody; nil where that cannot be
	mark  device.Event
}

var sites struct {
	sync.Mutex
	byName map[string]*site
}

// siteOf returns the site of a device, and opens it first where there is none. It
// and all that a site does change the context of their thread: call them
// elsewhere than in the caller's.
func siteOf(name string) (*site, error) {
	sites.Lock()
	defer sites.Unlock()
	if s := sites.byName[name]; s != nil {
		return s, nil
	}
	dev, err := device.Open(name)
	if err != nil {
		return nil, err
	}
	s := &site{dev: dev}
	s.native, _ = device.As[device.Native](dev)
	// PyTorch's own pinned memory has no limit either. Where nothing is copied
	// past the processor, memory need not be page-locked.
	o := pinned.Options{Name: "tensors", Budget: sysmem.Limit(), AllowPageable: s.native == nil, Flags: device.PinPortable | device.PinMapped}
	if s.pool, err = pinned.NewPool(dev, o); err == nil {
		s.engine, err = transfer.New(dev, transfer.Options{})
	}
	if err == nil {
		err = s.makeFence()
	}
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	if sites.byName == nil {
		sites.byName = map[string]*site{}
	}
	sites.byName[name] = s
	return s, nil
}

func (s *site) makeFence() (err error) {
	if all, ok := device.As[device.ContextRecorder](s.dev); s.native == nil || !ok || !all.CanRecordAll() {
		return nil
	}
	if s.mark, err = s.dev.NewEvent(device.EventNoTiming); err == nil {
		s.fence, err = s.dev.NewStream()
	}
	return err
}

// free gives a buffer back behind all that is queued on the device by now,
// whoever did.
func (s *site) free(b *pinned.Buffer) error {
	if s.native == nil {
		return b.Free()
	}
	if s.fence != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		all, _ := device.As[device.ContextRecorder](s.dev)
		if err := all.RecordAll(s.mark); err == nil && s.fence.Wait(s.mark) == nil {
			return b.Free(s.fence)
		}
	}
	_ = s.dev.Synchronize() // its errors are those of the caller's own work
	return b.Free()
}

// held is pinned memory of the caller's.
type held interface{ giveBack() error }

type buffer struct {
	*pinned.Buffer
	site *site
}

func (b buffer) giveBack() error { return b.site.free(b.Buffer) }

type registration struct {
	*pinned.Registration
	site *site
}

// giveBack waits for the work that may use the memory, as cudaHostUnregister
// does not.
func (r registration) giveBack() error {
	_ = r.site.dev.Synchronize()
	return r.Unregister()
}

var helds handles[held]

// pinion_pinned_alloc gives page-locked memory that is close to a device. Locked
// tells whether it is: on the host it need not be.
//
//export pinion_pinned_alloc
func pinion_pinned_alloc(device *C.char, n C.int64_t, bytes C.int64_t, handle, address *C.uint64_t, locked *C.int32_t) (result C.int) {
	defer guard(&result)
	name := C.GoStringN(device, C.int(n))
	var s *site
	var b *pinned.Buffer
	var err error
	elsewhere(func() {
		if s, err = siteOf(name); err == nil {
			b, err = s.pool.Alloc(context.Background(), int64(bytes))
		}
	})
	if err != nil {
		return fail(err)
	}
	*handle = C.uint64_t(helds.add(buffer{b, s}))
	*address = C.uint64_t(uintptr(unsafe.Pointer(unsafe.SliceData(b.Bytes()))))
	*locked = 0
	if b.Pinned() {
		*locked = 1
	}
	return C.PINION_OK
}

// pinion_pinned_register page-locks memory of the caller's for a device.
//
//export pinion_pinned_register
func pinion_pinned_register(device *C.char, n C.int64_t, address unsafe.Pointer, bytes C.int64_t, handle *C.uint64_t) (result C.int) {
	defer guard(&result)
	name := C.GoStringN(device, C.int(n))
	var s *site
	var r *pinned.Registration
	var err error
	elsewhere(func() {
		if s, err = siteOf(name); err == nil {
			r, err = s.pool.Register(memoryAt(address, bytes))
		}
	})
	if err != nil {
		return fail(err)
	}
	*handle = C.uint64_t(helds.add(registration{r, s}))
	return C.PINION_OK
}

// pinion_pinned_free ends what pinion_pinned_alloc or pinion_pinned_register
// began. What is queued on the device may go on using a buffer.
//
//export pinion_pinned_free
func pinion_pinned_free(handle C.uint64_t) (result C.int) {
	defer guard(&result)
	h, ok := helds.take(uint64(handle))
	if !ok {
		return C.PINION_OK
	}
	var err error
	elsewhere(func() { err = h.giveBack() })
	return fail(err)
}

// pinion_pinned_stats tells pinned.Stats of the memory that was pinned for a
// device: as JSON.
//
//export pinion_pinned_stats
func pinion_pinned_stats(device *C.char, n C.int64_t, out **C.char) (result C.int) {
	defer guard(&result)
	name := C.GoStringN(device, C.int(n))
	var s *site
	var err error
	elsewhere(func() { s, err = siteOf(name) })
	if err != nil {
		return fail(err)
	}
	t := s.pool.Stats()
	return tell(out, map[string]any{
		"reserved_bytes": t.ReservedBytes, "active_bytes": t.ActiveBytes, "requested_bytes": t.RequestedBytes,
		"pending_bytes": t.PendingBytes, "registered_bytes": t.RegisteredBytes, "peak_reserved_bytes": t.PeakReservedBytes,
		"pageable_bytes": t.PageableBytes, "buffers": t.Buffers, "numa_node": t.NUMANode,
		"available_bytes": sysmem.Available(),
	})
}

// memoryAt is memory of the caller's.
func memoryAt(address unsafe.Pointer, bytes C.int64_t) []byte {
	return unsafe.Slice((*byte)(address), int(bytes))
}

// pinion_copy copies between host and device memory, as a task. It is ordered
// with what is queued on a CUDA stream; -1: with nothing.
//
//export pinion_copy
func pinion_copy(name *C.char, n C.int64_t, host unsafe.Pointer, dev C.uint64_t, bytes C.int64_t, toHost C.int32_t, stream C.int64_t, task *C.uint64_t) (result C.int) {
	defer guard(&result)
	where := C.GoStringN(name, C.int(n))
	c := transfer.Copy{Host: memoryAt(host, bytes), Device: device.Ptr(dev), ToHost: toHost != 0}
	return start(task, nil, func(ctx context.Context) (uint64, error) {
		s, err := siteOf(where)
		if err != nil {
			return 0, err
		}
		return 0, s.on(stream, func(on device.Stream) error {
			c.On = on
			if err := s.engine.Do(ctx, c); err != nil || on == nil || !c.ToHost {
				return err
			}
			return on.Synchronize() // a copy that was too small to be staged is only queued
		})
	})
}

// on runs fn with a stream of the caller's.
func (s *site) on(stream C.int64_t, fn func(on device.Stream) error) error {
	if stream < 0 {
		return fn(nil)
	}
	if s.native == nil {
		return fmt.Errorf("%w: %s has no streams of others", errs.ErrArgument, s.dev.Info().ID)
	}
	on, err := s.native.StreamOf(uintptr(stream))
	if err != nil {
		return err
	}
	defer on.Close()
	return fn(on)
}

// pinion_task_stop gives a task up and waits for its end: it touches no memory of
// the caller's any more.
//
//export pinion_task_stop
func pinion_task_stop(handle C.uint64_t) (result C.int) {
	defer guard(&result)
	if t, ok := tasks.take(uint64(handle)); ok {
		t.cancel()
		<-t.done
	}
	return C.PINION_OK
}
