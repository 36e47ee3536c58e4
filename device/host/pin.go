package host

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Pin implements [device.Pinner] by locking the pages in memory. The flags
// ask for nothing that ordinary memory does not have already.
func (d *Device) Pin(b []byte, _ device.PinFlags) error {
	page := pagemem.PageSize()
	if len(b) == 0 || int64(address(b))%page != 0 || int64(len(b))%page != 0 {
		return fmt.Errorf("host: pin: %w: %d bytes at %#x are not whole pages of %d bytes",
			device.ErrArgument, len(b), uint64(address(b)), page)
	}
	d.mu.Lock()
	if d.closed.Load() {
		d.mu.Unlock()
		return errClosed
	}
	added := d.pinned.Insert(uint64(address(b)), int64(len(b)))
	d.mu.Unlock()
	if !added {
		return fmt.Errorf("host: pin: %w: %d bytes at %#x are pinned already, in part at least",
			device.ErrArgument, len(b), uint64(address(b)))
	}
	// Locking may take long, and nothing else has to wait for it.
	if err := pagemem.Lock(b); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.pinned.Remove(uint64(address(b)))
		limit := "no limit is set"
		if n, unlimited := pagemem.LockLimit(); !unlimited {
			limit = "the limit of the process is " + units.Bytes(n) + " (ulimit -l)"
		}
		return fmt.Errorf("host: %w: %s asked for, %s pinned by this device, %s",
			device.ErrPinLimit, units.Bytes(int64(len(b))), units.Bytes(d.pinnedBytes()), limit)
	}
	return nil
}

func (d *Device) pinnedBytes() int64 {
	var n int64
	for _, span := range d.pinned.All() {
		n += span.Bytes
	}
	return n
}

// Unpin implements [device.Pinner].
func (d *Device) Unpin(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone { // not closed: what Close still waits for is pinned
		return errClosed
	}
	start := uint64(address(b))
	if span, ok := d.pinned.Find(start, int64(len(b))); !ok || span.Start != start || span.Bytes != int64(len(b)) {
		return fmt.Errorf("host: unpin: %w: %d bytes at %#x were not pinned as one",
			device.ErrArgument, len(b), start)
	}
	d.pinned.Remove(start)
	return pagemem.Unlock(b)
}

// Pinned implements [device.Pinner].
func (d *Device) Pinned(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	_, first := d.pinned.Find(uint64(address(b)), 1)
	_, last := d.pinned.Find(uint64(address(b))+uint64(len(b))-1, 1)
	return first && last
}

// Mapped implements [device.Pinner]: host memory is device memory here.
func (d *Device) Mapped(b []byte) (device.Ptr, error) {
	if err := d.open(); err != nil {
		return 0, err
	}
	if !d.Pinned(b) {
		return 0, fmt.Errorf("host: mapped: %w: %d bytes that are not pinned", device.ErrArgument, len(b))
	}
	return address(b), nil
}

// CanMap implements [device.Pinner].
func (d *Device) CanMap() bool { return true }

var _ device.Pinner = (*Device)(nil)
