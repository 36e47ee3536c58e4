package host

import (
	"fmt"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
)

// opened counts the devices of the process. Code that holds two devices locks
// the older first.
var opened atomic.Uint64

// PeerAccess implements [device.PeerCopier]: all devices here are one memory.
func (d *Device) PeerAccess(other device.Device) bool {
	o, ok := device.As[*Device](other)
	return ok && d.open() == nil && o.open() == nil
}

// CopyPeer implements [device.PeerCopier]. The other device's guard waits for
// the copy, so that freeing the source does.
func (d *Device) CopyPeer(s device.Stream, dst device.Ptr, from device.Device, src device.Ptr, n int64) error {
	other, ok := device.As[*Device](from)
	if !ok {
		return fmt.Errorf("host: copy from a device of another backend: %w", device.ErrNotSupported)
	}
	first, second := d, other
	if second.serial < first.serial {
		first, second = second, first
	}
	first.mu.RLock()
	defer first.mu.RUnlock()
	if second != first {
		second.mu.RLock()
		defer second.mu.RUnlock()
	}
	hs, err := d.ownStream(s)
	if err != nil {
		return err
	}
	if err := other.open(); err != nil {
		return err
	}
	to, err := d.resolve(dst, n)
	if err != nil {
		return err
	}
	bytes, err := other.resolve(src, n)
	if err != nil {
		return err
	}
	if other == d {
		return hs.push(op{kind: opCopy, dst: to, src: bytes})
	}
	if hs.capturing() {
		return fmt.Errorf("host: copy from another device: %w", device.ErrCapturing)
	}
	done := make(chan struct{})
	if err := hs.push(op{kind: opCall, fn: func() error {
		defer close(done)
		copy(to, bytes)
		return nil
	}}); err != nil {
		return err
	}
	return other.guard.push(op{kind: opCall, fn: func() error {
		<-done
		return nil
	}})
}

var _ device.PeerCopier = (*Device)(nil)
