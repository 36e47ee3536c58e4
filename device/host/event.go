package host

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// event counts its marks. A mark may be passed after a newer one when the
// event was recorded in two streams, so the marks still to come are kept, not
// only the newest that is passed.
type event struct {
	dev   *Device
	flags device.EventFlags

	mu     sync.Mutex
	passed sync.Cond
	last   uint64   // newest mark; 0 before the first
	coming []uint64 // marks that are recorded and not passed, once for each stream
	at     time.Time
	err    error
	errOf  uint64 // the mark that err and at are of
	closed bool
	in     *captured // the newest mark, if it is in a capture
}

// NewEvent implements [device.Device].
func (d *Device) NewEvent(flags device.EventFlags) (device.Event, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	e := &event{dev: d, flags: flags}
	e.passed.L = &e.mu
	return e, nil
}

// begin makes a new mark, which so many streams will pass.
func (e *event) begin(streams int) (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, errClosed
	}
	e.in = nil
	e.last++
	for range streams {
		e.coming = append(e.coming, e.last)
	}
	return e.last, nil
}

// capture makes a mark in a capture the newest.
func (e *event) capture(m *captured) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errClosed
	}
	e.in = m
	return nil
}

// newest returns the newest mark, or where it is in a capture.
func (e *event) newest() (uint64, *captured, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, nil, errClosed
	}
	return e.last, e.in, nil
}

// pass passes a mark behind work of one stream that ended with err. Of several
// streams' errors the first counts.
func (e *event) pass(mark uint64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.Index(e.coming, mark)
	e.coming = slices.Delete(e.coming, i, i+1)
	if mark == e.last {
		if e.errOf != mark || e.err == nil {
			e.err = err
		}
		e.at, e.errOf = time.Now(), mark
	}
	e.passed.Broadcast()
}

// await waits until a mark is passed.
func (e *event) await(mark uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for slices.Contains(e.coming, mark) {
		e.passed.Wait()
	}
}

// usable fails when the event or its device is closed, and when no work passes the newest
// mark. The caller holds mu.
func (e *event) usable() error {
	if e.closed {
		return errClosed
	}
	if e.in != nil {
		return fmt.Errorf("host: %w: the event was recorded in one, and no work passes it", device.ErrCapturing)
	}
	return e.dev.open()
}

func (e *event) Done() (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(); err != nil {
		return false, err
	}
	if slices.Contains(e.coming, e.last) {
		return false, nil
	}
	return true, e.err
}

func (e *event) Synchronize() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for mark := e.last; slices.Contains(e.coming, mark); {
		e.passed.Wait()
	}
	if err := e.usable(); err != nil {
		return err
	}
	return e.err
}

func (e *event) Since(start device.Event) (time.Duration, error) {
	s, ok := eventOf(start)
	if !ok || s.dev != e.dev {
		return 0, fmt.Errorf("host: %w: the events belong to different devices", device.ErrArgument)
	}
	from, err := s.time()
	if err != nil {
		return 0, err
	}
	to, err := e.time()
	if err != nil {
		return 0, err
	}
	return to.Sub(from), nil
}

// time is when the newest mark was passed.
func (e *event) time() (time.Time, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(); err != nil {
		return time.Time{}, err
	}
	if e.flags&device.EventNoTiming != 0 {
		return time.Time{}, fmt.Errorf("host: %w: the event was made without timing", device.ErrArgument)
	}
	if e.last == 0 || slices.Contains(e.coming, e.last) {
		return time.Time{}, fmt.Errorf("host: %w: the event is not passed yet", device.ErrArgument)
	}
	return e.at, nil
}

// eventOf finds the event of this backend that e is, or wraps.
func eventOf(e device.Event) (*event, bool) {
	if he, ok := e.(*event); ok {
		return he, true
	}
	return device.AsEvent[*event](e)
}

func (e *event) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	return nil
}
