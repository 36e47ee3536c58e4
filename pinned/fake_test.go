package pinned

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// fakeDevice pins nothing, checks that pins and unpins pair up, and completes
// events when a test says so.
type fakeDevice struct {
	id       string
	pinDelay time.Duration
	closed   atomic.Bool

	mu        sync.Mutex
	pinned    map[uintptr]int
	pinBytes  int64
	pinLimit  int64 // above it Pin fails; 0: none
	unpinErr  error
	eventErr  error // of NewEvent
	syncErr   error
	events    int // open ones
	marks     []*fakeMark
	maxPinned int64
}

func newFake() *fakeDevice { return &fakeDevice{id: "fake:0", pinned: map[uintptr]int{}} }

// fakeMark is one recorded moment of a stream.
type fakeMark struct {
	done   atomic.Bool
	err    atomic.Pointer[error]
	passed chan struct{}
	once   sync.Once
}

func (m *fakeMark) complete() {
	m.once.Do(func() { m.done.Store(true); close(m.passed) })
}

func (d *fakeDevice) Info() device.Info               { return device.Info{ID: d.id, Backend: "fake"} }
func (d *fakeDevice) Memory() (device.Memory, error)  { return device.Memory{}, nil }
func (d *fakeDevice) Alloc(int64) (device.Ptr, error) { return 0, device.ErrNotSupported }
func (d *fakeDevice) Free(device.Ptr) error           { return device.ErrNotSupported }
func (d *fakeDevice) NewStream() (device.Stream, error) {
	return &fakeStream{dev: d}, nil
}

func (d *fakeDevice) NewEvent(flags device.EventFlags) (device.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eventErr != nil {
		return nil, d.eventErr
	}
	if flags&device.EventNoTiming == 0 {
		return nil, errors.New("an event with timing")
	}
	d.events++
	return &fakeEvent{dev: d}, nil
}

// Synchronize completes all marks, as waiting for them would.
func (d *fakeDevice) Synchronize() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.syncErr != nil {
		return d.syncErr
	}
	for _, m := range d.marks {
		m.complete()
	}
	return nil
}

func (d *fakeDevice) Close() error { d.closed.Store(true); return nil }
func (d *fakeDevice) Closed() bool { return d.closed.Load() }

func (d *fakeDevice) Pin(b []byte, flags device.PinFlags) error {
	if flags&device.PinWriteCombined != 0 {
		return fmt.Errorf("%w: write-combined", device.ErrArgument)
	}
	if !pagemem.Aligned(b) {
		return fmt.Errorf("%w: not whole pages", device.ErrArgument)
	}
	time.Sleep(d.pinDelay)
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := int64(len(b)); d.pinLimit > 0 && d.pinBytes+n > d.pinLimit {
		return fmt.Errorf("%w: fake limit of %d bytes", device.ErrPinLimit, d.pinLimit)
	}
	addr := uintptr(unsafe.Pointer(&b[0]))
	if d.pinned[addr] != 0 {
		return fmt.Errorf("%w: pinned twice", device.ErrArgument)
	}
	d.pinned[addr] = len(b)
	d.pinBytes += int64(len(b))
	d.maxPinned = max(d.maxPinned, d.pinBytes)
	return nil
}

func (d *fakeDevice) Unpin(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unpinErr != nil {
		return d.unpinErr
	}
	addr := uintptr(unsafe.Pointer(&b[0]))
	if d.pinned[addr] != len(b) {
		return fmt.Errorf("%w: unpin of what is not pinned", device.ErrArgument)
	}
	delete(d.pinned, addr)
	d.pinBytes -= int64(len(b))
	return nil
}

func (d *fakeDevice) Pinned([]byte) bool { return true }
func (d *fakeDevice) CanMap() bool       { return true }
func (d *fakeDevice) Mapped(b []byte) (device.Ptr, error) {
	return device.Ptr(uintptr(unsafe.Pointer(&b[0]))) + 1<<60, nil
}

func (d *fakeDevice) state() (pinBytes int64, events int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pinBytes, d.events
}

type fakeStream struct {
	device.Stream // no copies here
	dev           *fakeDevice
	recordErr     error
}

func (s *fakeStream) Device() device.Device { return s.dev }
func (s *fakeStream) Synchronize() error    { return s.dev.Synchronize() }

func (s *fakeStream) Record(e device.Event) error {
	if s.recordErr != nil {
		return s.recordErr
	}
	event := e.(*fakeEvent)
	if event.dev != s.dev {
		return fmt.Errorf("%w: an event of another device", device.ErrArgument)
	}
	if event.closed.Load() {
		return fmt.Errorf("%w: event", device.ErrClosed)
	}
	if m := event.mark.Load(); m != nil && !m.done.Load() {
		return errors.New("recorded again before it was passed")
	}
	m := &fakeMark{passed: make(chan struct{})}
	event.mark.Store(m)
	s.dev.mu.Lock()
	s.dev.marks = append(s.dev.marks, m)
	s.dev.mu.Unlock()
	return nil
}

type fakeEvent struct {
	dev    *fakeDevice
	mark   atomic.Pointer[fakeMark]
	closed atomic.Bool
}

func (e *fakeEvent) Done() (bool, error) {
	m := e.mark.Load()
	if m == nil {
		return true, nil
	}
	if err := m.err.Load(); err != nil {
		return false, *err
	}
	return m.done.Load(), nil
}

func (e *fakeEvent) Synchronize() error {
	m := e.mark.Load()
	if m == nil {
		return nil
	}
	if err := m.err.Load(); err != nil {
		return *err
	}
	<-m.passed
	return nil
}

func (e *fakeEvent) Since(device.Event) (time.Duration, error) { return 0, device.ErrNotSupported }

func (e *fakeEvent) Close() error {
	if e.closed.CompareAndSwap(false, true) {
		e.dev.mu.Lock()
		e.dev.events--
		e.dev.mu.Unlock()
	}
	return nil
}

// plainDevice hides that a device can pin.
type plainDevice struct{ device.Device }

// writeCombining is a device that makes pinned memory itself.
type writeCombining struct {
	*fakeDevice
	made     map[*byte]int64
	flags    device.PinFlags
	allocErr error
}

func (d *writeCombining) AllocHost(n int64, flags device.PinFlags) ([]byte, error) {
	if d.allocErr != nil {
		return nil, d.allocErr
	}
	b, err := pagemem.Map(n)
	if err == nil {
		d.made[&b[0]] = n
		d.flags = flags
	}
	return b, err
}

func (d *writeCombining) FreeHost(b []byte) error {
	if d.made[&b[0]] != int64(len(b)) {
		return device.ErrArgument
	}
	delete(d.made, &b[0])
	return pagemem.Unmap(b)
}

func streams(s []*fakeStream) []device.Stream {
	var list []device.Stream
	for _, x := range s {
		list = append(list, x)
	}
	return list
}

// gatedDevice pins and unpins only when its gate is open.
type gatedDevice struct {
	*fakeDevice
	open    atomic.Bool
	gate    chan struct{}
	entered chan struct{}
}

func newGated() *gatedDevice {
	return &gatedDevice{fakeDevice: newFake(), gate: make(chan struct{}), entered: make(chan struct{}, 10)}
}

func (d *gatedDevice) pass() {
	if !d.open.Load() {
		d.entered <- struct{}{}
		<-d.gate
	}
}

func (d *gatedDevice) Pin(b []byte, flags device.PinFlags) error {
	d.pass()
	return d.fakeDevice.Pin(b, flags)
}

func (d *gatedDevice) Unpin(b []byte) error {
	d.pass()
	return d.fakeDevice.Unpin(b)
}
