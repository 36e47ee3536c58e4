package cuda

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

type event struct {
	dev      *Device
	handle   uintptr
	flags    device.EventFlags
	recorded atomic.Bool
	captured atomic.Bool // the newest mark is in a capture, and no work passes it
	gate     gate
}

// NewEvent implements [device.Device].
func (d *Device) NewEvent(flags device.EventFlags) (device.Event, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	var driverFlags uintptr
	if flags&device.EventNoTiming != 0 {
		driverFlags |= eventDisableTiming
	}
	if flags&device.EventBlockingSync != 0 {
		driverFlags |= eventBlockingSync
	}
	e := &event{dev: d, flags: flags}
	if err := check("cuEventCreate",
		api.eventCreate.Call(uintptr(unsafe.Pointer(&e.handle)), driverFlags)); err != nil {
		return nil, err
	}
	d.owned.Lock()
	d.events[e] = struct{}{}
	d.owned.Unlock()
	return e, nil
}

func (e *event) enter() error {
	if err := e.dev.enter(); err != nil {
		return err
	}
	if !e.gate.enter() {
		e.dev.leave()
		return errClosed
	}
	return nil
}

func (e *event) leave() {
	e.gate.leave()
	e.dev.leave()
}

func (e *event) Done() (bool, error) {
	if err := e.enter(); err != nil {
		return false, err
	}
	defer e.leave()
	if e.captured.Load() {
		return false, errCaptured
	}
	switch r := api.eventQuery.Call4(e.handle, 0, 0, 0); r {
	case 0:
		return true, nil
	case resultNotReady:
		return false, nil
	default:
		return false, check("cuEventQuery", r)
	}
}

func (e *event) Synchronize() error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	if e.captured.Load() {
		return errCaptured
	}
	if r := api.eventSynchronize.Call4(e.handle, 0, 0, 0); r != 0 {
		return check("cuEventSynchronize", r)
	}
	return nil
}

func (e *event) Since(from device.Event) (time.Duration, error) {
	start, ok := eventOf(from)
	if !ok || start.dev != e.dev {
		return 0, fmt.Errorf("cuda: %w: the events belong to different devices", device.ErrArgument)
	}
	if err := e.dev.enter(); err != nil {
		return 0, err
	}
	defer e.dev.leave()
	first, second := start, e
	if first.handle > second.handle {
		first, second = second, first // one order of locks for all callers
	}
	if !first.gate.enter() {
		return 0, errClosed
	}
	defer first.gate.leave()
	if second != first {
		if !second.gate.enter() {
			return 0, errClosed
		}
		defer second.gate.leave()
	}
	for _, ev := range []*event{start, e} {
		if ev.flags&device.EventNoTiming != 0 {
			return 0, fmt.Errorf("cuda: %w: the event was made without timing", device.ErrArgument)
		}
		if ev.captured.Load() {
			return 0, errCaptured
		}
		if !ev.recorded.Load() {
			return 0, errNotPassed
		}
	}
	var milliseconds float32
	switch r := api.eventElapsedTime.Call4(uintptr(unsafe.Pointer(&milliseconds)), start.handle, e.handle, 0); r {
	case 0:
	case resultNotReady:
		return 0, errNotPassed
	default:
		return 0, check("cuEventElapsedTime", r)
	}
	return time.Duration(float64(milliseconds) * float64(time.Millisecond)), nil
}

var errNotPassed = fmt.Errorf("cuda: %w: the event is not passed yet", device.ErrArgument)

// errCaptured: the driver refuses to be asked, and ends a capture that still goes on.
var errCaptured = fmt.Errorf("cuda: %w: the event was recorded in one, and no work passes it", device.ErrCapturing)

// eventOf finds the event of this backend that e is, or wraps.
func eventOf(e device.Event) (*event, bool) {
	if ce, ok := e.(*event); ok {
		return ce, true
	}
	return device.AsEvent[*event](e)
}

func (e *event) Close() error {
	if err := e.dev.enter(); err != nil {
		return closedWith(err)
	}
	defer e.dev.leave()
	return e.gate.close(func() error {
		e.dev.owned.Lock()
		delete(e.dev.events, e)
		e.dev.owned.Unlock()
		return check("cuEventDestroy", api.eventDestroy.Call(e.handle))
	})
}
