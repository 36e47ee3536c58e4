package devicetest

import (
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/spans"
)

// Discrete is the host backend with the manners of a device of its own: there is
// a link in between, and pinning pays. It only keeps account of what is pinned, so
// that tests need no permission to lock memory.
type Discrete struct {
	device.Wrapper
	PinLimit int64 // of pinned bytes; 0: none

	pinner device.Pinner // of the device inside

	mu   sync.Mutex
	pins spans.Set
	now  int64 // bytes pinned
	most int64
}

// OpenDiscrete opens one with so many bytes of memory, and closes it when the test
// ends. The test fails when something is pinned then.
func OpenDiscrete(t testing.TB, capacity int64) *Discrete {
	t.Helper()
	dev, err := host.Open(capacity)
	if err != nil {
		t.Fatal(err)
	}
	d := &Discrete{Wrapper: device.Wrapper{Device: dev}, pinner: dev}
	t.Cleanup(func() {
		if left := d.pins.All(); len(left) > 0 {
			t.Errorf("still pinned: %v", left)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// PinnedBytes is how many bytes are pinned now, and were at most.
func (d *Discrete) PinnedBytes() (now, most int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now, d.most
}

// Info implements [device.Device].
func (d *Discrete) Info() device.Info {
	info := d.Device.Info()
	info.Integrated, info.ID = false, "discrete"
	return info
}

// Pin implements [device.Pinner].
func (d *Discrete) Pin(b []byte, _ device.PinFlags) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	start, n := span(b)
	if d.PinLimit > 0 && d.now+n > d.PinLimit {
		return fmt.Errorf("discrete: %w: %d bytes on top of %d", device.ErrPinLimit, n, d.now)
	}
	if !d.pins.Insert(start, n) {
		return device.ErrArgument
	}
	d.now += n
	d.most = max(d.most, d.now)
	return nil
}

// Unpin implements [device.Pinner].
func (d *Discrete) Unpin(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	start, n := span(b)
	if had, found := d.pins.Remove(start); !found || had != n {
		return device.ErrArgument
	}
	d.now -= n
	return nil
}

// Pinned implements [device.Pinner].
func (d *Discrete) Pinned(b []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, found := d.pins.Find(span(b))
	return found && len(b) > 0
}

// Mapped implements [device.Pinner]. It fails: what is only kept account of is
// not mapped.
func (d *Discrete) Mapped(b []byte) (device.Ptr, error) { return d.pinner.Mapped(b) }

// CanMap implements [device.Pinner].
func (d *Discrete) CanMap() bool { return false }

func span(b []byte) (uint64, int64) {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), int64(len(b))
}
