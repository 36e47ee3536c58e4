package tune

import (
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/spans"
)

// discrete is the host backend as a device behind a link. It only keeps account
// of what is pinned, so that tests need no permission to lock memory.
type discrete struct {
	*host.Device
	mu    sync.Mutex
	pins  spans.Set
	bytes int64 // pinned now
	limit int64 // of them; 0: none
}

func openDiscrete(t testing.TB, capacity int64) *discrete {
	t.Helper()
	dev, err := host.Open(capacity)
	ok(t, err)
	d := &discrete{Device: dev}
	t.Cleanup(func() {
		if left := d.pins.All(); len(left) > 0 {
			t.Errorf("still pinned: %v", left)
		}
		ok(t, dev.Close())
	})
	return d
}

func (d *discrete) Info() device.Info {
	info := d.Device.Info()
	info.Integrated, info.ID = false, "discrete"
	return info
}

func span(b []byte) (uint64, int64) {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), int64(len(b))
}

func (d *discrete) Pin(b []byte, _ device.PinFlags) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	start, n := span(b)
	if d.limit > 0 && d.bytes+n > d.limit {
		return fmt.Errorf("discrete: %w: %d bytes on top of %d", device.ErrPinLimit, n, d.bytes)
	}
	if !d.pins.Insert(start, n) {
		return device.ErrArgument
	}
	d.bytes += n
	return nil
}

func (d *discrete) Unpin(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	start, n := span(b)
	if _, found := d.pins.Remove(start); !found {
		return device.ErrArgument
	}
	d.bytes -= n
	return nil
}

func (d *discrete) Pinned(b []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, found := d.pins.Find(span(b))
	return found
}
