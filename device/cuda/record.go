package cuda

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// CanRecordAll implements [device.ContextRecorder].
func (d *Device) CanRecordAll() bool { return api.ctxRecordEvent.Ok() }

// RecordAll implements [device.ContextRecorder]. Green contexts count with the
// primary context that they were made of.
func (d *Device) RecordAll(ev device.Event) error {
	if !d.CanRecordAll() {
		return fmt.Errorf("cuda: event behind all streams: %w: the driver is for CUDA %s, 12.5 is needed",
			device.ErrNotSupported, d.info.DriverVersion)
	}
	e, ok := eventOf(ev)
	switch {
	case !ok || e.dev != d:
		return fmt.Errorf("cuda: %w: the event belongs to another device", device.ErrArgument)
	case e.flags&device.EventNoTiming == 0:
		return fmt.Errorf("cuda: %w: an event behind all streams takes no time: make it with EventNoTiming", device.ErrArgument)
	}
	if err := d.hold(); err != nil {
		return err
	}
	defer d.mu.RUnlock()
	if !e.gate.enter() {
		return errClosed
	}
	defer e.gate.leave()
	captures.RLock()
	defer captures.RUnlock()
	if captures.now.Load() > 0 {
		return fmt.Errorf("cuda: %w: an event behind all streams, of which one is being captured", device.ErrCapturing)
	}
	switch r := d.call(func() uintptr { return api.ctxRecordEvent.Call4(d.context, e.handle, 0, 0) }); r {
	case 0:
		return nil
	case resultCaptureUnsupported:
		return fmt.Errorf("cuda: a stream of this process is being captured into a graph, which this makes invalid: %w",
			check("cuCtxRecordEvent", r))
	default:
		return check("cuCtxRecordEvent", r)
	}
}

var _ device.ContextRecorder = (*Device)(nil)
