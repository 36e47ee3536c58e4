package cuda

import (
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// location is CUmemLocation. By value it travels in one integer register.
type location struct {
	kind, id int32
}

func (l location) word() uintptr { return uintptr(uint32(l.kind)) | uintptr(uint32(l.id))<<32 }

// CanManage implements [device.Manager].
func (d *Device) CanManage() bool { return d.canManage }

// AllocManaged implements [device.Manager].
func (d *Device) AllocManaged(n int64) (device.Ptr, []byte, error) {
	if !d.canManage {
		return 0, nil, fmt.Errorf("cuda: managed memory: %w", device.ErrNotSupported)
	}
	if n <= 0 {
		return 0, nil, fmt.Errorf("cuda: %w: managed allocation of %d bytes", device.ErrArgument, n)
	}
	if err := d.enter(); err != nil {
		return 0, nil, err
	}
	defer d.leave()
	var p uint64
	if err := check("cuMemAllocManaged", api.memAllocManaged.Call(
		uintptr(unsafe.Pointer(&p)), uintptr(n), memAttachGlobal)); err != nil {
		return 0, nil, explain(err, n)
	}
	d.owned.Lock()
	d.live.Insert(p, n)
	d.owned.Unlock()
	return device.Ptr(p), unsafe.Slice((*byte)(dl.Pointer(uintptr(p))), n), nil
}

// Prefetch implements [device.Manager].
func (d *Device) Prefetch(s device.Stream, p device.Ptr, n int64, toHost bool) error {
	if !d.canManage {
		return fmt.Errorf("cuda: managed memory: %w", device.ErrNotSupported)
	}
	cs, err := d.enterStream(s)
	if err != nil {
		return err
	}
	defer cs.leave()
	to := location{locationDevice, d.handle}
	if toHost {
		to = location{locationHost, 0}
	}
	if r := api.memPrefetchAsync.Call(uintptr(p), uintptr(n), to.word(), 0, cs.handle); r != 0 {
		return copyError(check("cuMemPrefetchAsync", r), p, n)
	}
	return nil
}

// enterStream checks that s is of this device and enters it.
func (d *Device) enterStream(s device.Stream) (*stream, error) {
	cs, ok := streamOf(s)
	if !ok || cs.dev != d {
		return nil, errOtherStream
	}
	return cs, cs.enter()
}

var errOtherStream = fmt.Errorf("cuda: %w: the stream belongs to another device", device.ErrArgument)

var _ device.Manager = (*Device)(nil)
