package transfertest

import (
	"errors"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
)

// Full is a rig that shows all that the host backend can do, kernels too. A
// test can let kernels, and the mapping of pinned memory, fail.
type Full struct {
	*Rig
	caller device.Caller

	called   atomic.Pointer[func() error] // before each kernel is queued
	Unmapped atomic.Bool                  // pinned memory is not mapped
}

// Full skips the test on devices that are not the host backend.
func (f *Fixture) Full() *Full {
	f.Helper()
	caller, ok := device.As[device.Caller](f.Dev.Device)
	if !ok {
		f.Skip("the device runs no Go functions in its streams")
	}
	return &Full{Rig: f.Dev, caller: caller}
}

func (d *Full) OnCall(fn func() error) { d.called.Store(&fn) }

func (d *Full) Call(s device.Stream, fn func() error) error {
	if called := d.called.Load(); called != nil {
		if err := (*called)(); err != nil {
			return err
		}
	}
	return d.caller.Call(s, fn)
}

func (d *Full) Bytes(p device.Ptr, n int64) ([]byte, error) { return d.caller.Bytes(p, n) }

// Unwrap lets the rest of what the device can do be found.
func (d *Full) Unwrap() device.Device { return d.Rig.Device }

var errUnmapped = errors.New("not mapped")

func (d *Full) Mapped(b []byte) (device.Ptr, error) {
	if d.Unmapped.Load() {
		return 0, errUnmapped
	}
	return d.Rig.Mapped(b)
}
