package cuda

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// opened counts the devices of the process. Code that holds two devices locks
// the older first.
var opened atomic.Uint64

// PeerAccess implements [device.PeerCopier].
func (d *Device) PeerAccess(other device.Device) bool {
	o, ok := device.As[*Device](other)
	if !ok || d.enterWith(o) != nil {
		return false
	}
	defer d.leaveWith(o)
	return d.reaches(o)
}

// CopyPeer implements [device.PeerCopier]. The other device's guard waits for
// the copy, so that freeing the source does.
func (d *Device) CopyPeer(s device.Stream, dst device.Ptr, from device.Device, src device.Ptr, n int64) error {
	cs, ok := streamOf(s)
	if !ok || cs.dev != d {
		return errOtherStream
	}
	o, ok := device.As[*Device](from)
	if !ok {
		return fmt.Errorf("cuda: copy from a device of another backend: %w", device.ErrNotSupported)
	}
	if o == d {
		return cs.CopyD2D(dst, src, n)
	}
	if n < 0 {
		return fmt.Errorf("cuda: %w: %d bytes", device.ErrArgument, n)
	}
	if err := d.enterWith(o); err != nil {
		return err
	}
	defer d.leaveWith(o)
	if !cs.gate.enter() {
		return errClosed
	}
	defer cs.gate.leave()
	if n == 0 {
		return nil
	}

	guard, err := o.guardStream()
	if err != nil {
		return err
	}
	if err := d.setCurrent(); err != nil {
		return err
	}
	if err := cs.refuse("copy from another device"); err != nil {
		return err
	}
	mark, err := cs.peerMark()
	if err != nil {
		return err
	}
	d.reaches(o) // or the driver goes through host memory
	call, r := "cuMemcpyDtoDAsync", uintptr(0)
	if d.context == o.context {
		r = api.memcpyDtoDAsync.Call4(uintptr(dst), uintptr(src), uintptr(n), cs.handle)
	} else {
		call = "cuMemcpyPeerAsync"
		r = api.memcpyPeerAsync.Call(uintptr(dst), d.context, uintptr(src), o.context, uintptr(n), cs.handle)
	}
	if r != 0 {
		return fmt.Errorf("cuda: %d bytes, %#x of %s to %#x: %w",
			n, uint64(src), o.info.ID, uint64(dst), pointerError(check(call, r)))
	}
	if r := api.eventRecord.Call4(mark, cs.handle, 0, 0); r != 0 {
		return check("cuEventRecord", r)
	}
	if err := o.setCurrent(); err != nil {
		return err
	}
	if r := api.streamWaitEvent.Call4(guard.handle, mark, 0, 0); r != 0 {
		return check("cuStreamWaitEvent", r)
	}
	return nil
}

// enterWith is enter that holds another device open too.
func (d *Device) enterWith(o *Device) error {
	if o == d {
		return d.enter()
	}
	if d.serial < o.serial {
		if err := d.enter(); err != nil {
			return err
		}
		if err := o.hold(); err != nil {
			d.leave()
			return err
		}
		return nil
	}
	if err := o.hold(); err != nil {
		return err
	}
	if err := d.enter(); err != nil {
		o.mu.RUnlock()
		return err
	}
	return nil
}

func (d *Device) leaveWith(o *Device) {
	d.leave()
	if o != d {
		o.mu.RUnlock()
	}
}

// reaches reports whether d reaches the memory of o by itself, and sees to it
// at the first call. Both are held open, and d's context is current.
func (d *Device) reaches(o *Device) bool {
	if d.context == o.context {
		return true
	}
	d.owned.Lock()
	defer d.owned.Unlock()
	direct, known := d.peers[o.serial]
	if !known {
		var can int32
		r := api.deviceCanAccessPeer.Call(uintptr(unsafe.Pointer(&can)), uintptr(d.handle), uintptr(o.handle))
		if r == 0 && can != 0 {
			r = api.ctxEnablePeerAccess.Call(o.context, 0)
			direct = r == 0 || r == resultPeerAccessEnabled
		}
		d.peers[o.serial] = direct
	}
	return direct
}

// guardStream returns the device's guard. The caller holds the device open;
// its context may be current afterwards.
func (d *Device) guardStream() (*stream, error) {
	d.owned.Lock()
	defer d.owned.Unlock()
	if d.guard == nil {
		if err := d.setCurrent(); err != nil {
			return nil, err
		}
		s, err := d.newStream()
		if err != nil {
			return nil, err
		}
		d.guard = s
	}
	return d.guard, nil
}

// peerMark returns the stream's event for copies from other devices. Copies
// of one stream may share it: a later mark stands for the earlier ones.
func (s *stream) peerMark() (uintptr, error) {
	s.dev.owned.Lock()
	defer s.dev.owned.Unlock()
	if s.mark == 0 {
		var handle uintptr
		if err := check("cuEventCreate",
			api.eventCreate.Call(uintptr(unsafe.Pointer(&handle)), eventDisableTiming)); err != nil {
			return 0, err
		}
		s.mark = handle
	}
	return s.mark, nil
}

var _ device.PeerCopier = (*Device)(nil)
