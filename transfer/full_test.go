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
	batch  device.BatchCopier
	box    device.BoxCopier

	called   atomic.Pointer[func() error] // before each kernel is queued
	unmapped atomic.Bool                  // pinned memory is not mapped
}

// full skips the test on devices that are not the host backend.
func (f *fixture) full() *full {
	f.Helper()
	caller, ok := f.dev.Device.(device.Caller)
	if !ok {
		f.Skip("the device runs no Go functions in its streams")
	}
	return &full{rig: f.dev, caller: caller,
		batch: f.dev.Device.(device.BatchCopier), box: f.dev.Device.(device.BoxCopier)}
}

func (d *full) onCall(fn func() error) { d.called.Store(&fn) }

func plainStream(s device.Stream) device.Stream {
	if s, ok := s.(*stream); ok {
		return s.Stream
	}
	return s
}

func (d *full) Call(s device.Stream, fn func() error) error {
	if called := d.called.Load(); called != nil {
		if err := (*called)(); err != nil {
			return err
		}
	}
	return d.caller.Call(plainStream(s), fn)
}

func (d *full) Bytes(p device.Ptr, n int64) ([]byte, error) { return d.caller.Bytes(p, n) }

func (d *full) CanCopyBatch() bool { return d.batch.CanCopyBatch() }
func (d *full) CopyBatch(s device.Stream, spans []device.Span) error {
	return d.batch.CopyBatch(plainStream(s), spans)
}

func (d *full) CanCopyBox(b device.Box) bool { return d.box.CanCopyBox(b) }
func (d *full) CopyBox(s device.Stream, b device.Box) error {
	return d.box.CopyBox(plainStream(s), b)
}

var errUnmapped = errors.New("not mapped")

func (d *full) Mapped(b []byte) (device.Ptr, error) {
	if d.unmapped.Load() {
		return 0, errUnmapped
	}
	return d.rig.Mapped(b)
}
