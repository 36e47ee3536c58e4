package cuda

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// enter makes the device's context current on this thread and holds the
// device open. Every successful enter needs a leave.
func (d *Device) enter() error {
	if err := d.hold(); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := d.setCurrent(); err != nil {
		runtime.UnlockOSThread()
		d.mu.RUnlock()
		return err
	}
	relax()
	return nil
}

// setCurrent makes the device's context current on this thread.
func (d *Device) setCurrent() error {
	if r := api.ctxSetCurrent.Call4(d.context, 0, 0, 0); r != 0 {
		return check("cuCtxSetCurrent", r)
	}
	return nil
}

// hold holds the device open until mu is unlocked.
func (d *Device) hold() error {
	d.mu.RLock()
	if d.closed {
		d.mu.RUnlock()
		return errClosed
	}
	return nil
}

func (d *Device) leave() {
	unrelax()
	runtime.UnlockOSThread()
	d.mu.RUnlock()
}

// severalDevices says that threads may have the context of another device.
var severalDevices atomic.Bool

// call makes a driver call whose stream or event says which context it is for.
// The thread still needs a context, any one. It nearly always has one from an
// earlier call, and setting it costs a tenth of queueing a copy, so it is set
// only when the driver complains. The driver complains in many ways: copying
// mapped chunks without a context, for one, is "invalid value".
func (d *Device) call(fn func() uintptr) uintptr {
	if !severalDevices.Load() {
		switch r := fn(); r {
		case resultInvalidValue, resultInvalidContext, resultContextDestroyed, resultInvalidHandle:
		default:
			return r
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if r := api.ctxSetCurrent.Call4(d.context, 0, 0, 0); r != 0 {
		return r
	}
	return fn()
}

// Info implements [device.Device].
func (d *Device) Info() device.Info { return d.info }

// Memory implements [device.Device].
func (d *Device) Memory() (device.Memory, error) {
	if err := d.enter(); err != nil {
		return device.Memory{}, err
	}
	defer d.leave()
	return memory()
}

// memory asks for the memory of the current context.
func memory() (device.Memory, error) {
	var free, total uint64
	err := check("cuMemGetInfo", api.memGetInfo.Call(
		uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total))))
	return device.Memory{TotalBytes: int64(total), FreeBytes: int64(free)}, err
}

// Alloc implements [device.Device].
func (d *Device) Alloc(n int64) (device.Ptr, error) {
	if n <= 0 {
		return 0, fmt.Errorf("cuda: %w: allocation of %d bytes", device.ErrArgument, n)
	}
	if err := d.enter(); err != nil {
		return 0, err
	}
	defer d.leave()
	var p uint64
	if err := check("cuMemAlloc", api.memAlloc.Call(uintptr(unsafe.Pointer(&p)), uintptr(n))); err != nil {
		return 0, explain(err, n)
	}
	d.owned.Lock()
	d.live.Insert(p, n)
	d.owned.Unlock()
	return device.Ptr(p), nil
}

// explain adds the numbers to an out-of-memory error of the current context.
func explain(err error, asked int64) error {
	m, infoErr := memory()
	if infoErr != nil || !errors.Is(err, device.ErrOutOfMemory) {
		return fmt.Errorf("cuda: asked for %d bytes: %w", asked, err)
	}
	return fmt.Errorf("cuda: %w: asked for %d bytes, %d of %d are free: %w",
		device.ErrOutOfMemory, asked, m.FreeBytes, m.TotalBytes, err)
}

// Free implements [device.Device].
func (d *Device) Free(p device.Ptr) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	d.owned.Lock()
	_, ok := d.live.Remove(uint64(p))
	delete(d.async, uint64(p))
	delete(d.managed, uint64(p))
	d.owned.Unlock()
	if !ok {
		return fmt.Errorf("cuda: free: %w: %#x is not the start of an allocation", device.ErrPointer, uint64(p))
	}
	// The driver waits too, in practice; it does not promise to. A failure
	// here is that of some queued work and belongs to whoever waits for it.
	_ = d.synchronize()
	return check("cuMemFree", api.memFree.Call(uintptr(p)))
}

// Synchronize implements [device.Device].
func (d *Device) Synchronize() error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	return d.synchronize()
}

// Closed implements [device.Device].
func (d *Device) Closed() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.closed
}

// Close implements [device.Device].
func (d *Device) Close() error {
	// Before all else: who frees what graphs have operations of, such as NCCL, waits for
	// them to be closed, and has entered the device.
	d.owned.Lock()
	graphs := slices.Collect(maps.Keys(d.graphs))
	d.owned.Unlock()
	var errs []error
	for _, g := range graphs {
		errs = append(errs, g.Close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	sharers.Delete(d.serial)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Only this device's streams are waited for: others in the process may
	// use the same context.
	errs = append(errs, d.setCurrent())
	for s := range d.streams {
		errs = append(errs, s.destroy())
	}
	for e := range d.events {
		errs = append(errs, check("cuEventDestroy", api.eventDestroy.Call(e.handle)))
	}
	for g := range d.graphs {
		errs = append(errs, check("cuGraphExecDestroy", api.graphExecDestroy.Call(g.handle)))
	}
	for m := range d.modules {
		errs = append(errs, check("cuModuleUnload", api.moduleUnload.Call(m.handle)))
	}
	for _, span := range d.registered.All() {
		errs = append(errs, check("cuMemHostUnregister", api.memHostUnregister.Call(uintptr(span.Start))))
	}
	for p := range d.hostAllocs {
		errs = append(errs, check("cuMemFreeHost", api.memFreeHost.Call(p)))
	}
	for p := range d.opened {
		errs = append(errs, check("cuIpcCloseMemHandle", api.ipcCloseMemHandle.Call(uintptr(p))))
	}
	if d.word != 0 {
		errs = append(errs, check("cuMemFree", api.memFree.Call(uintptr(d.word))))
	}
	for _, span := range d.live.All() {
		errs = append(errs, check("cuMemFree", api.memFree.Call(uintptr(span.Start))))
	}
	if d.pool != 0 {
		errs = append(errs, check("cuMemPoolDestroy", api.memPoolDestroy.Call(d.pool)))
	}
	for _, span := range d.mapped.All() {
		errs = append(errs, check("cuMemUnmap", api.memUnmap.Call(uintptr(span.Start), uintptr(span.Bytes))))
	}
	for c := range d.chunks {
		errs = append(errs, check("cuMemRelease", api.memRelease.Call(uintptr(c))))
	}
	for _, span := range d.reserved.All() {
		errs = append(errs, check("cuMemAddressFree", api.memAddressFree.Call(uintptr(span.Start), uintptr(span.Bytes))))
	}
	api.ctxSetCurrent.Call(0)
	errs = append(errs, check("cuDevicePrimaryCtxRelease", api.primaryCtxRelease.Call(uintptr(d.handle))))
	return errors.Join(errs...)
}

var _ device.Device = (*Device)(nil)
