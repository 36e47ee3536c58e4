package transfer_test

import (
	"errors"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
)

// full is a rig that shows all that the host backend can do, kernels too. A
// test can let kernels, and the mapping of pinned memory, fail.
type full struct {
	*rig
	caller device.Caller

	called   atomic.Pointer[func() error] // before each kernel is queued
	unmapped atomic.Bool                  // pinned memory is not mapped
}

// full skips the test on devices that are not the host backend.
func (f *fixture) full() *full {
	f.Helper()
	caller, ok := device.As[device.Caller](f.dev.Device)
	if !ok {
		f.Skip("the device runs no Go functions in its streams")
	}
	return &full{rig: f.dev, caller: caller}
}

func (d *full) onCall(fn func() error) { d.called.Store(&fn) }

func (d *full) Call(s device.Stream, fn func() error) error {
	if called := d.called.Load(); called != nil {
		if err := (*called)(); err != nil {
			return err
		}
	}
	return d.caller.Call(s, fn)
}

func (d *full) Bytes(p device.Ptr, n int64) ([]byte, error) { return d.caller.Bytes(p, n) }

// Unwrap lets the rest of what the device can do be found.
func (d *full) Unwrap() device.Device { return d.rig.Device }

var errUnmapped = errors.New("not mapped")

func (d *full) Mapped(b []byte) (device.Ptr, error) {
	if d.unmapped.Load() {
		return 0, errUnmapped
	}
	return d.rig.Mapped(b)
}
