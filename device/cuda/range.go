package cuda

import (
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// CheckRange implements [device.RangeChecker] by asking the driver, so that
// what others in the process allocated counts too. Allocations of its own it
// knows: asking takes several times as long. Memory that lies in several
// mappings is asked for one after the other.
func (d *Device) CheckRange(p device.Ptr, n int64) error {
	if n < 0 || uint64(p)+uint64(n) < uint64(p) {
		return fmt.Errorf("cuda: %w: %d bytes at %#x", device.ErrArgument, n, uint64(p))
	}
	if own, err := d.isOwn(p, n); own || err != nil {
		return err
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	for at, left := uint64(p), uint64(n); left > 0; {
		start, size, ok := d.rangeAt(at)
		if !ok || at < start || at-start >= size {
			return fmt.Errorf("cuda: %w: of %d bytes at %#x the last %d are not live device memory",
				device.ErrPointer, n, uint64(p), left)
		}
		// Pinned memory has a device too, that of the context that pinned it.
		if owner, ok := pointerAttribute(at, pointerDeviceOrdinal); !ok ||
			int32(owner) != d.handle && !isHost(at) {
			return fmt.Errorf("cuda: %w: %d bytes at %#x belong to device %d, this is %d",
				device.ErrPointer, n, uint64(p), int32(owner), d.handle)
		}
		here := min(size-(at-start), left)
		at, left = at+here, left-here
	}
	return nil
}

// isOwn reports whether all n bytes lie in one allocation of the device.
func (d *Device) isOwn(p device.Ptr, n int64) (bool, error) {
	if err := d.hold(); err != nil {
		return false, err
	}
	defer d.mu.RUnlock()
	d.owned.Lock()
	defer d.owned.Unlock()
	_, own := d.live.Find(uint64(p), n)
	return own, nil
}

// rangeAt returns the range of memory that holds an address. The device looks up
// its own allocations without the driver, and what the Mapper has mapped too: to
// the driver, reserved address space is one range, mapped or not.
func (d *Device) rangeAt(address uint64) (start, size uint64, ok bool) {
	d.owned.Lock()
	_, reserved := d.reserved.Find(address, 1)
	mapping, mapped := d.mapped.Find(address, 1)
	allocation, allocated := d.live.Find(address, 1)
	d.owned.Unlock()
	if allocated {
		return allocation.Start, uint64(allocation.Bytes), true
	}
	if reserved {
		return mapping.Start, uint64(mapping.Bytes), mapped
	}
	start, ok1 := pointerAttribute(address, pointerRangeStart)
	size, ok2 := pointerAttribute(address, pointerRangeSize)
	return start, size, ok1 && ok2
}

// pointerAttribute asks the driver about an address, on a thread that has
// entered.
func pointerAttribute(address uint64, attribute uintptr) (value uint64, ok bool) {
	word := words.Get().(*[2]uint64)
	defer words.Put(word)
	word[0] = 0
	r := api.pointerGetAttribute.Call4(uintptr(unsafe.Pointer(word)), attribute, uintptr(address), 0)
	return word[0], r == 0
}

var _ device.RangeChecker = (*Device)(nil)
