package cuda

import (
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/spans"
)

// allocationProp is CUmemAllocationProp.
type allocationProp struct {
	kind        int32
	handleTypes int32
	location    location
	win32       uintptr
	flags       [8]byte
}

// accessDesc is CUmemAccessDesc.
type accessDesc struct {
	location location
	flags    int32
}

func (d *Device) prop() allocationProp {
	return allocationProp{kind: allocationPinned, location: location{locationDevice, d.handle}}
}

// enterMapper is enter for calls that need virtual memory.
func (d *Device) enterMapper() error {
	if !d.canReserve {
		return fmt.Errorf("cuda: virtual memory: %w", device.ErrNotSupported)
	}
	return d.enter()
}

// enterSized is enterMapper for calls with a size.
func (d *Device) enterSized(call string, n int64) error {
	if n <= 0 {
		return fmt.Errorf("cuda: %s: %w: %d bytes", call, device.ErrArgument, n)
	}
	return d.enterMapper()
}

// CanReserve implements [device.Mapper].
func (d *Device) CanReserve() bool { return d.canReserve }

// Granularity implements [device.Mapper].
func (d *Device) Granularity() (int64, error) {
	if err := d.enterMapper(); err != nil {
		return 0, err
	}
	defer d.leave()
	var n uint64
	prop := d.prop()
	err := check("cuMemGetAllocationGranularity", api.memGetAllocationGranularity.Call(
		uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&prop)), granularityMinimum))
	return int64(n), err
}

// Reserve implements [device.Mapper].
func (d *Device) Reserve(n int64) (device.Ptr, error) {
	if err := d.enterSized("reserve", n); err != nil {
		return 0, err
	}
	defer d.leave()
	var p uint64
	if err := check("cuMemAddressReserve", api.memAddressReserve.Call(
		uintptr(unsafe.Pointer(&p)), uintptr(n), 0, 0, 0)); err != nil {
		return 0, fmt.Errorf("cuda: reserve %d bytes of address space: %w", n, err)
	}
	d.owned.Lock()
	d.reserved.Insert(p, n)
	d.owned.Unlock()
	return device.Ptr(p), nil
}

// Unreserve implements [device.Mapper].
func (d *Device) Unreserve(p device.Ptr, n int64) error {
	if err := d.enterSized("unreserve", n); err != nil {
		return err
	}
	defer d.leave()
	if err := check("cuMemAddressFree", api.memAddressFree.Call(uintptr(p), uintptr(n))); err != nil {
		return err
	}
	d.owned.Lock()
	d.reserved.Remove(uint64(p))
	d.owned.Unlock()
	return nil
}

// CreateChunk implements [device.Mapper].
func (d *Device) CreateChunk(n int64) (device.Chunk, error) {
	if err := d.enterSized("create chunk", n); err != nil {
		return 0, err
	}
	defer d.leave()
	var c uint64
	prop := d.prop()
	if err := check("cuMemCreate", api.memCreate.Call(
		uintptr(unsafe.Pointer(&c)), uintptr(n), uintptr(unsafe.Pointer(&prop)), 0)); err != nil {
		return 0, explain(err, n)
	}
	d.owned.Lock()
	d.chunks[c] = n
	d.owned.Unlock()
	return device.Chunk(c), nil
}

// ReleaseChunk implements [device.Mapper].
func (d *Device) ReleaseChunk(c device.Chunk) error {
	if err := d.enterMapper(); err != nil {
		return err
	}
	defer d.leave()
	if err := check("cuMemRelease", api.memRelease.Call(uintptr(c))); err != nil {
		return err
	}
	d.owned.Lock()
	delete(d.chunks, uint64(c))
	d.owned.Unlock()
	return nil
}

// Map implements [device.Mapper].
func (d *Device) Map(p device.Ptr, c device.Chunk, n int64) error {
	if err := d.enterSized("map", n); err != nil {
		return err
	}
	defer d.leave()
	d.owned.Lock()
	size := d.chunks[uint64(c)]
	d.owned.Unlock()
	if size != n {
		return fmt.Errorf("cuda: map: %w: %d bytes of a chunk of %d", device.ErrArgument, n, size)
	}
	if err := check("cuMemMap", api.memMap.Call(uintptr(p), uintptr(n), 0, uintptr(c), 0)); err != nil {
		return fmt.Errorf("cuda: map %d bytes at %#x: %w", n, uint64(p), err)
	}
	access := accessDesc{location: location{locationDevice, d.handle}, flags: accessReadWrite}
	if err := check("cuMemSetAccess", api.memSetAccess.Call(
		uintptr(p), uintptr(n), uintptr(unsafe.Pointer(&access)), 1)); err != nil {
		api.memUnmap.Call(uintptr(p), uintptr(n))
		return fmt.Errorf("cuda: map %d bytes at %#x: %w", n, uint64(p), err)
	}
	d.owned.Lock()
	d.mapped.Insert(uint64(p), n)
	d.owned.Unlock()
	return nil
}

// Unmap implements [device.Mapper].
func (d *Device) Unmap(p device.Ptr, n int64) error {
	if err := d.enterSized("unmap", n); err != nil {
		return err
	}
	defer d.leave()
	// The driver removes what it finds; a caller that is wrong about what is
	// mapped should hear of it.
	var inside []spans.Span
	var bytes int64
	d.owned.Lock()
	for _, span := range d.mapped.All() {
		if span.Start >= uint64(p) && span.Start+uint64(span.Bytes) <= uint64(p)+uint64(n) {
			inside = append(inside, span)
			bytes += span.Bytes
		}
	}
	d.owned.Unlock()
	if bytes != n {
		return fmt.Errorf("cuda: unmap: %w: %d bytes at %#x, of which %d are whole mappings",
			device.ErrArgument, n, uint64(p), bytes)
	}
	if err := check("cuMemUnmap", api.memUnmap.Call(uintptr(p), uintptr(n))); err != nil {
		return err
	}
	d.owned.Lock()
	for _, span := range inside {
		d.mapped.Remove(span.Start)
	}
	d.owned.Unlock()
	return nil
}

var _ device.Mapper = (*Device)(nil)
