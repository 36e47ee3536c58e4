package cuda

import (
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
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
		return 0, fmt.Errorf("cuda: reserve %s of address space: %w", units.Bytes(n), err)
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
func (d *Device) Map(p device.Ptr, chunks []device.Chunk, n int64) error {
	if n <= 0 || int64(len(chunks)) > math.MaxInt64/n {
		return fmt.Errorf("cuda: map: %w: %d chunks of %d bytes", device.ErrArgument, len(chunks), n)
	}
	if err := d.enterMapper(); err != nil {
		return err
	}
	defer d.leave()
	if len(chunks) == 0 {
		return nil
	}
	if err := d.checkChunks(chunks, n); err != nil {
		return err
	}
	for i, c := range chunks {
		if err := mapChunk(p.Add(int64(i)*n), c, n); err != nil {
			unmap(p, int64(i)*n)
			return fmt.Errorf("cuda: map chunk %d of %d, %d bytes each, at %#x: %w", i, len(chunks), n, uint64(p), err)
		}
	}
	all := int64(len(chunks)) * n
	if r := api.memSetAccess.Call4(uintptr(p), uintptr(all), uintptr(unsafe.Pointer(&d.access)), 1); r != 0 {
		unmap(p, all)
		return fmt.Errorf("cuda: map %d bytes at %#x: %w", all, uint64(p), check("cuMemSetAccess", r))
	}
	d.owned.Lock()
	for i := range chunks {
		d.mapped.Insert(uint64(p)+uint64(i)*uint64(n), n)
	}
	d.owned.Unlock()
	return nil
}

// checkChunks fails unless all chunks are this device's and have n bytes.
func (d *Device) checkChunks(chunks []device.Chunk, n int64) error {
	d.owned.Lock()
	defer d.owned.Unlock()
	for i, c := range chunks {
		if size := d.chunks[uint64(c)]; size != n {
			return fmt.Errorf("cuda: map: %w: %d bytes of chunk %d of %d, which has %d",
				device.ErrArgument, n, i, len(chunks), size)
		}
	}
	return nil
}

// mapArguments are lists of five arguments, kept so that mapping allocates
// nothing.
var mapArguments = sync.Pool{New: func() any { return new([5]uintptr) }}

func mapChunk(p device.Ptr, c device.Chunk, n int64) error {
	args := mapArguments.Get().(*[5]uintptr)
	defer mapArguments.Put(args)
	*args = [5]uintptr{uintptr(p), uintptr(n), 0, uintptr(c), 0}
	if r := api.memMap.Call(args[:]...); r != 0 {
		return check("cuMemMap", r)
	}
	return nil
}

// unmap removes all mappings in a range of nothing or of whole mappings.
func unmap(p device.Ptr, n int64) error {
	if n == 0 {
		return nil
	}
	if r := api.memUnmap.Call4(uintptr(p), uintptr(n), 0, 0); r != 0 {
		return check("cuMemUnmap", r)
	}
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
	d.owned.Lock()
	defer d.owned.Unlock()
	if !d.mapped.Tiles(uint64(p), n) {
		return fmt.Errorf("cuda: unmap: %w: %d bytes at %#x are not whole mappings without a gap",
			device.ErrArgument, n, uint64(p))
	}
	if err := unmap(p, n); err != nil {
		return err
	}
	d.mapped.RemoveIn(uint64(p), n)
	return nil
}

var _ device.Mapper = (*Device)(nil)
