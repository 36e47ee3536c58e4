package cuda

import (
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// poolProps is CUmemPoolProps.
type poolProps struct {
	kind        int32
	handleTypes int32
	location    location
	win32       uintptr
	maxBytes    uint64 // 0: the driver's own limit
	reserved    [56]byte
}

// memPool returns the device's pool, on a thread that has entered. It is not the
// GPU's default pool, which the whole process shares: its release threshold is
// not Pinion's to change, and trimming it would take memory from others. A pool
// of our own also goes away in Close, with all that it kept.
func (d *Device) memPool() (uintptr, error) {
	if !d.canAllocAsync {
		return 0, fmt.Errorf("cuda: stream-ordered allocation: %w", device.ErrNotSupported)
	}
	d.owned.Lock()
	defer d.owned.Unlock()
	if d.pool != 0 {
		return d.pool, nil
	}
	props := poolProps{kind: allocationPinned, location: location{locationDevice, d.handle}}
	var pool uintptr
	if err := check("cuMemPoolCreate", api.memPoolCreate.Call(
		uintptr(unsafe.Pointer(&pool)), uintptr(unsafe.Pointer(&props)))); err != nil {
		return 0, err
	}
	d.pool = pool
	return pool, nil
}

// CanAllocAsync implements [device.StreamAllocator].
func (d *Device) CanAllocAsync() bool { return d.canAllocAsync }

// AllocAsync implements [device.StreamAllocator].
func (d *Device) AllocAsync(s device.Stream, n int64) (device.Ptr, error) {
	if n <= 0 {
		return 0, fmt.Errorf("cuda: %w: allocation of %d bytes", device.ErrArgument, n)
	}
	cs, err := d.enterStream(s)
	if err != nil {
		return 0, err
	}
	defer cs.leave()
	if err := cs.refuse("allocation"); err != nil {
		return 0, err
	}
	pool, err := d.memPool()
	if err != nil {
		return 0, err
	}
	word := words.Get().(*[2]uint64)
	defer words.Put(word)
	if r := api.memAllocFromPoolAsync.Call4(uintptr(unsafe.Pointer(word)), uintptr(n), pool, cs.handle); r != 0 {
		return 0, explain(check("cuMemAllocFromPoolAsync", r), n)
	}
	p := word[0]
	d.owned.Lock()
	d.live.Insert(p, n)
	d.async[p] = struct{}{}
	d.owned.Unlock()
	return device.Ptr(p), nil
}

// FreeAsync implements [device.StreamAllocator].
func (d *Device) FreeAsync(s device.Stream, p device.Ptr) error {
	cs, err := d.enterStream(s)
	if err != nil {
		return err
	}
	defer cs.leave()
	if err := cs.refuse("free"); err != nil {
		return err
	}
	// Forget the address first: the driver may hand it out again at once.
	d.owned.Lock()
	_, ok := d.async[uint64(p)]
	var n int64
	if ok {
		delete(d.async, uint64(p))
		n, _ = d.live.Remove(uint64(p))
	}
	d.owned.Unlock()
	if !ok {
		return fmt.Errorf("cuda: free in stream order: %w: %#x is not the start of an allocation in stream order",
			device.ErrPointer, uint64(p))
	}
	if r := api.memFreeAsync.Call4(uintptr(p), cs.handle, 0, 0); r != 0 {
		d.owned.Lock()
		d.live.Insert(uint64(p), n)
		d.async[uint64(p)] = struct{}{}
		d.owned.Unlock()
		return check("cuMemFreeAsync", r)
	}
	return nil
}

// SetReleaseThreshold implements [device.StreamAllocator].
func (d *Device) SetReleaseThreshold(n int64) error {
	return d.withPool("release threshold", n, func(pool uintptr) error {
		value := uint64(n)
		return check("cuMemPoolSetAttribute", api.memPoolSetAttribute.Call(
			pool, poolReleaseThreshold, uintptr(unsafe.Pointer(&value))))
	})
}

// TrimPool implements [device.StreamAllocator].
func (d *Device) TrimPool(keep int64) error {
	return d.withPool("trim pool", keep, func(pool uintptr) error {
		return check("cuMemPoolTrimTo", api.memPoolTrimTo.Call(pool, uintptr(keep)))
	})
}

// withPool calls fn, which takes n bytes as its argument, with the pool.
func (d *Device) withPool(what string, n int64, fn func(pool uintptr) error) error {
	if n < 0 {
		return fmt.Errorf("cuda: %s: %w: %d bytes", what, device.ErrArgument, n)
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	pool, err := d.memPool()
	if err != nil {
		return err
	}
	return fn(pool)
}

var _ device.StreamAllocator = (*Device)(nil)
