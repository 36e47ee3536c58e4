package cuda

import (
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/units"
)

// location is CUmemLocation. By value it travels in one integer register.
type location struct {
	kind, id int32
}

func (l location) word() uintptr { return uintptr(uint32(l.kind)) | uintptr(uint32(l.id))<<32 }

// CanManage implements [device.Manager].
func (d *Device) CanManage() bool { return d.migration != device.NoMigration }

// Migration implements [device.Manager].
func (d *Device) Migration() device.Migration { return d.migration }

// describeManaged asks what managed memory the device has.
func (d *Device) describeManaged() {
	switch {
	case d.attribute(attrManagedMemory) == 0 || !api.memAllocManaged.Ok() || !api.memPrefetchAsync.Ok() ||
		!api.memAdvise.Ok() || !api.memRangeGetAttribute.Ok():
		d.migration = device.NoMigration
	case d.attribute(attrConcurrentManaged) == 0:
		d.migration = device.WholeMigration
	default:
		d.migration = device.PageMigration
	}
}

// checkManaged checks a call on n bytes of managed memory. The call needs pages
// that migrate on request if pages is set.
func (d *Device) checkManaged(call string, n int64, pages bool) error {
	switch {
	case !d.CanManage():
		return fmt.Errorf("cuda: managed memory: %w", device.ErrNotSupported)
	case pages && d.migration != device.PageMigration:
		return fmt.Errorf("cuda: %s of managed memory that migrates as a whole: %w", call, device.ErrNotSupported)
	case n <= 0:
		return fmt.Errorf("cuda: %w: %s of %d bytes of managed memory", device.ErrArgument, call, n)
	}
	return nil
}

// AllocManaged implements [device.Manager].
func (d *Device) AllocManaged(n int64, o device.ManagedOptions) (device.Ptr, []byte, error) {
	if err := d.checkManaged("allocation", n, false); err != nil {
		return 0, nil, err
	}
	if err := d.enter(); err != nil {
		return 0, nil, err
	}
	defer d.leave()
	d.managing.Lock()
	defer d.managing.Unlock()
	if err := d.roomToManage(n); err != nil && !o.Oversubscribe {
		return 0, nil, err
	}
	var p uint64
	if err := check("cuMemAllocManaged", api.memAllocManaged.Call(
		uintptr(unsafe.Pointer(&p)), uintptr(n), memAttachGlobal)); err != nil {
		return 0, nil, explain(err, n)
	}
	d.owned.Lock()
	d.live.Insert(p, n)
	d.managed[p] = n
	d.owned.Unlock()
	return device.Ptr(p), hostMemory(device.Ptr(p), n), nil
}

// hostMemory is managed memory as the host sees it.
func hostMemory(p device.Ptr, n int64) []byte {
	return unsafe.Slice((*byte)(dl.Pointer(uintptr(p))), n)
}

// roomToManage fails when the device has no room for n more bytes of managed
// memory beside what is on it. The caller holds managing.
//
// The driver tells how much memory is in use, but not how much of that is
// managed memory that migrated to the device. So what others hold is known
// exactly only while there is no managed memory. Later it is somewhere between
// two bounds, and is taken to be what it was, unless the bounds say otherwise.
func (d *Device) roomToManage(n int64) error {
	m, err := memory()
	if err != nil {
		return err
	}
	var mine, managed int64
	d.owned.Lock()
	for _, span := range d.live.All() {
		mine += span.Bytes
	}
	for _, bytes := range d.managed {
		managed += bytes
	}
	mine -= managed
	for _, bytes := range d.chunks {
		mine += bytes
	}
	d.owned.Unlock()

	rest := m.TotalBytes - m.FreeBytes - mine // others, and what migrated
	d.others = max(0, min(max(d.others, rest-managed), rest))
	if room := m.TotalBytes - d.others - mine - managed; n > room {
		return fmt.Errorf("cuda: %w: %s of managed memory would be more than the device holds: of %s, %s are managed already and %s in use, which leaves %s (ManagedOptions.Oversubscribe allows it)",
			device.ErrOutOfMemory, units.Bytes(n), units.Bytes(m.TotalBytes), units.Bytes(managed), units.Bytes(d.others+mine), units.Bytes(max(0, room)))
	}
	return nil
}

// Prefetch implements [device.Manager].
func (d *Device) Prefetch(s device.Stream, p device.Ptr, n int64, to device.Place) error {
	if err := d.checkManaged("prefetch", n, true); err != nil {
		return err
	}
	if to != device.OnHost && to != device.OnDevice {
		return fmt.Errorf("cuda: %w: prefetch to %v", device.ErrArgument, to)
	}
	cs, err := d.enterStream(s)
	if err != nil {
		return err
	}
	defer cs.leave()
	if r := api.memPrefetchAsync.Call(uintptr(p), uintptr(n), d.location(to).word(), 0, cs.handle); r != 0 {
		return copyError(check("cuMemPrefetchAsync", r), p, n)
	}
	return nil
}

// location is what the driver calls a place.
func (d *Device) location(p device.Place) location {
	if p == device.OnHost {
		return location{kind: locationHost}
	}
	return location{locationDevice, d.handle}
}

// Advise implements [device.Manager].
func (d *Device) Advise(p device.Ptr, n int64, a device.Advice) error {
	if err := d.checkManaged("advice", n, true); err != nil {
		return err
	}
	if err := a.Check(); err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	host, here := d.location(device.OnHost), d.location(device.OnDevice)
	preferred := d.location(a.Preferred)
	for _, advice := range []struct {
		holds      bool
		set, unset uintptr
		location   location
	}{
		{a.ReadMostly, adviseReadMostly, unadviseReadMostly, here},
		{a.Preferred != device.Anywhere, advisePreferred, unadvisePreferred, preferred},
		{a.HostReads, adviseAccessedBy, unadviseAccessedBy, host},
		{a.DeviceReads, adviseAccessedBy, unadviseAccessedBy, here},
	} {
		code := advice.unset
		if advice.holds {
			code = advice.set
		}
		if r := api.memAdvise.Call4(uintptr(p), uintptr(n), code, advice.location.word()); r != 0 {
			return copyError(check("cuMemAdvise", r), p, n)
		}
	}
	return nil
}

// Residency implements [device.Manager].
func (d *Device) Residency(p device.Ptr, n int64) (r device.Residency, err error) {
	if err := d.checkManaged("residency", n, false); err != nil {
		return r, err
	}
	if p == 0 {
		return r, fmt.Errorf("cuda: %w: residency of %d bytes nowhere", device.ErrPointer, n)
	}
	if err := d.enter(); err != nil {
		return r, err
	}
	defer d.leave()
	readMostly := [1]uint32{}
	preferred, prefetched := [1]uint32{noDevice}, [1]uint32{noDevice}
	accessed := [8]uint32{} // this device, the host and some others
	for i := range accessed {
		accessed[i] = noDevice
	}
	for _, ask := range []struct {
		attribute uintptr
		values    []uint32
	}{
		{rangeReadMostly, readMostly[:]},
		{rangePreferred, preferred[:]},
		{rangeAccessedBy, accessed[:]},
		{rangeLastPrefetch, prefetched[:]},
	} {
		code := api.memRangeGetAttribute.Call(uintptr(unsafe.Pointer(&ask.values[0])), uintptr(4*len(ask.values)),
			ask.attribute, uintptr(p), uintptr(n))
		if code != 0 {
			return r, copyError(check("cuMemRangeGetAttribute", code), p, n)
		}
	}
	r.ReadMostly = readMostly[0] != 0
	r.Preferred, r.Prefetched = d.place(preferred[0]), d.place(prefetched[0])
	for _, who := range accessed {
		r.HostReads = r.HostReads || who == hostDevice
		r.DeviceReads = r.DeviceReads || who == uint32(d.handle)
	}
	known := false
	if r.HostBytes, known = pagemem.Present(hostMemory(p, n)); !known {
		r.HostBytes = -1
	}
	return r, nil
}

// place is a place as the driver names it in an attribute.
func (d *Device) place(name uint32) device.Place {
	switch name {
	case noDevice:
		return device.Anywhere
	case hostDevice:
		return device.OnHost
	case uint32(d.handle):
		return device.OnDevice
	}
	return device.OnAnother
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
