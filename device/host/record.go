package host

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// CanRecordAll implements [device.ContextRecorder].
func (d *Device) CanRecordAll() bool { return true }

// RecordAll implements [device.ContextRecorder]: the mark is passed when each
// stream of the device has passed it.
func (d *Device) RecordAll(ev device.Event) error {
	e, ok := eventOf(ev)
	switch {
	case !ok || e.dev != d:
		return fmt.Errorf("host: %w: the event belongs to another device", device.ErrArgument)
	case e.flags&device.EventNoTiming == 0:
		return fmt.Errorf("host: %w: an event behind all streams takes no time: make it with EventNoTiming", device.ErrArgument)
	}
	d.mu.RLock() // nothing is queued behind a Close
	defer d.mu.RUnlock()
	if err := d.open(); err != nil {
		return err
	}
	if d.captures.Load() > 0 {
		return fmt.Errorf("host: %w: an event behind all streams, of which one is being captured", device.ErrCapturing)
	}
	mark, err := e.begin(len(d.streams))
	if err != nil {
		return err
	}
	for s := range d.streams {
		s.mu.Lock()
		s.mark(e, mark)
		s.mu.Unlock()
	}
	return nil
}

var _ device.ContextRecorder = (*Device)(nil)
