package cuda

import (
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/units"
)

func hostAddress(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Pin implements [device.Pinner] by registering the pages with the driver.
func (d *Device) Pin(b []byte, flags device.PinFlags) error {
	page := pagemem.PageSize()
	if len(b) == 0 || int64(hostAddress(b))%page != 0 || int64(len(b))%page != 0 {
		return fmt.Errorf("cuda: pin: %w: %d bytes at %#x are not whole pages of %d bytes",
			device.ErrArgument, len(b), hostAddress(b), page)
	}
	if flags&device.PinWriteCombined != 0 {
		return fmt.Errorf("cuda: pin: %w: memory that exists cannot become write-combined", device.ErrNotSupported)
	}
	var driverFlags uintptr
	if flags&device.PinPortable != 0 {
		driverFlags |= hostRegisterPortable
	}
	if flags&device.PinMapped != 0 {
		driverFlags |= hostRegisterDeviceMap
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	r := api.memHostRegister.Call(uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), driverFlags)
	switch err := check("cuMemHostRegister", r); {
	case err == nil:
	case is(err, resultAlreadyRegistered):
		return fmt.Errorf("cuda: pin: %w: %d bytes at %#x are pinned already, in part at least: %w",
			device.ErrArgument, len(b), hostAddress(b), err)
	default:
		d.owned.Lock()
		defer d.owned.Unlock()
		return fmt.Errorf("cuda: pin: %s asked for, %s pinned by this device: %w",
			units.Bytes(int64(len(b))), units.Bytes(d.pinnedBytes()), pinError(err))
	}
	d.owned.Lock()
	d.registered.Insert(uint64(hostAddress(b)), int64(len(b)))
	d.owned.Unlock()
	return nil
}

// pinError makes device.ErrPinLimit of a refusal by the system. The driver's "out
// of memory" is about host memory here, so its error is quoted, not wrapped.
func pinError(err error) error {
	for _, code := range []int{resultOutOfMemory, resultOperatingSystem, resultNotPermitted} {
		if is(err, code) {
			return fmt.Errorf("%w: %v", device.ErrPinLimit, err)
		}
	}
	return err
}

// pinnedBytes is what Pin has registered. The caller holds owned.
func (d *Device) pinnedBytes() int64 {
	var n int64
	for _, span := range d.registered.All() {
		n += span.Bytes
	}
	return n
}

// Unpin implements [device.Pinner].
func (d *Device) Unpin(b []byte) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	start := uint64(hostAddress(b))
	d.owned.Lock()
	span, ok := d.registered.Find(start, int64(len(b)))
	if ok = ok && span.Start == start && span.Bytes == int64(len(b)); ok {
		d.registered.Remove(start)
	}
	d.owned.Unlock()
	if !ok {
		return fmt.Errorf("cuda: unpin: %w: %d bytes at %#x were not pinned as one", device.ErrArgument, len(b), start)
	}
	return check("cuMemHostUnregister", api.memHostUnregister.Call(uintptr(start)))
}

// Pinned implements [device.Pinner]. What others in the process have pinned
// counts too, so memory that Pin did not make is looked up in the driver.
func (d *Device) Pinned(b []byte) bool {
	if err := d.enter(); err != nil {
		return false
	}
	defer d.leave()
	return d.isPinned(b)
}

// isPinned is Pinned on a thread that has entered.
func (d *Device) isPinned(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	start := uint64(hostAddress(b))
	d.owned.Lock()
	_, ours := d.registered.Find(start, int64(len(b)))
	d.owned.Unlock()
	return ours || isHost(start) && isHost(start+uint64(len(b))-1)
}

// isHost reports whether the driver knows the address as host memory, which
// it does only when it is pinned.
func isHost(address uint64) bool {
	kind, ok := pointerAttribute(address, pointerMemoryType)
	return ok && uint32(kind) == memoryTypeHost
}

// Mapped implements [device.Pinner].
func (d *Device) Mapped(b []byte) (device.Ptr, error) {
	if err := d.enter(); err != nil {
		return 0, err
	}
	defer d.leave()
	if !d.isPinned(b) {
		return 0, fmt.Errorf("cuda: mapped: %w: %d bytes that are not pinned", device.ErrArgument, len(b))
	}
	var p uint64
	err := check("cuMemHostGetDevicePointer", api.memHostGetDevicePointer.Call(
		uintptr(unsafe.Pointer(&p)), uintptr(unsafe.Pointer(unsafe.SliceData(b))), 0))
	return device.Ptr(p), err
}

// CanMap implements [device.Pinner].
func (d *Device) CanMap() bool { return d.canMap }

// AllocHost implements [device.HostAllocator].
func (d *Device) AllocHost(n int64, flags device.PinFlags) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("cuda: %w: pinned allocation of %d bytes", device.ErrArgument, n)
	}
	var driverFlags uintptr
	if flags&device.PinPortable != 0 {
		driverFlags |= hostAllocPortable
	}
	if flags&device.PinMapped != 0 {
		driverFlags |= hostAllocDeviceMap
	}
	if flags&device.PinWriteCombined != 0 {
		driverFlags |= hostAllocWriteCombined
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	var p uintptr
	if err := check("cuMemHostAlloc", api.memHostAlloc.Call(
		uintptr(unsafe.Pointer(&p)), uintptr(n), driverFlags)); err != nil {
		return nil, fmt.Errorf("cuda: pinned allocation of %d bytes: %w", n, pinError(err))
	}
	d.owned.Lock()
	d.hostAllocs[p] = struct{}{}
	d.owned.Unlock()
	return unsafe.Slice((*byte)(dl.Pointer(p)), n), nil
}

// FreeHost implements [device.HostAllocator].
func (d *Device) FreeHost(b []byte) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	p := hostAddress(b)
	d.owned.Lock()
	_, ok := d.hostAllocs[p]
	delete(d.hostAllocs, p)
	d.owned.Unlock()
	if !ok {
		return fmt.Errorf("cuda: free host: %w: %#x was not allocated here", device.ErrArgument, p)
	}
	return check("cuMemFreeHost", api.memFreeHost.Call(p))
}

var (
	_ device.Pinner        = (*Device)(nil)
	_ device.HostAllocator = (*Device)(nil)
)
