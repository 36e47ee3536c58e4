package host

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// Adopt makes n > 0 bytes of memory at p, which others allocated, memory of this
// device, until Disown. They stay theirs: the device frees them at no time, and they do
// not count towards its capacity.
func (d *Device) Adopt(p device.Ptr, n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(); err != nil {
		return err
	}
	if p == 0 || n <= 0 || !d.adopted.Insert(uint64(p), n) {
		return fmt.Errorf("host: adopt: %w: %d bytes at %#x are nothing, or adopted already, in part at least",
			device.ErrArgument, n, uint64(p))
	}
	return nil
}

// Disown ends Adopt, once the work that is queued is done.
func (d *Device) Disown(p device.Ptr) error {
	if _, err := d.drain(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.adopted.Remove(uint64(p)); !ok {
		return fmt.Errorf("host: disown: %w: %#x was not adopted", device.ErrPointer, uint64(p))
	}
	return nil
}
