package host

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// CanManage implements [device.Manager].
func (d *Device) CanManage() bool { return true }

// Migration implements [device.Manager]: there is one memory here.
func (d *Device) Migration() device.Migration { return device.NoMigration }

// AllocManaged implements [device.Manager]. It takes room on the device as Alloc
// does; with Oversubscribe more than there is.
func (d *Device) AllocManaged(n int64, o device.ManagedOptions) (device.Ptr, []byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := d.alloc(n, o.Oversubscribe)
	if err != nil {
		return 0, nil, err
	}
	d.managed[p] = n
	return p, memory(p, n), nil
}

// Prefetch implements [device.Manager].
func (d *Device) Prefetch(s device.Stream, p device.Ptr, n int64, to device.Place) error {
	if to != device.OnHost && to != device.OnDevice {
		return fmt.Errorf("host: %w: prefetch to %v", device.ErrArgument, to)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	hs, err := d.ownStream(s)
	if err != nil {
		return err
	}
	if err := d.checkManaged(p, n); err != nil {
		return err
	}
	return hs.usable()
}

// Advise implements [device.Manager].
func (d *Device) Advise(p device.Ptr, n int64, a device.Advice) error {
	if err := a.Check(); err != nil {
		return fmt.Errorf("host: %w", err)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.checkManaged(p, n)
}

// Residency implements [device.Manager].
func (d *Device) Residency(p device.Ptr, n int64) (device.Residency, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if err := d.checkManaged(p, n); err != nil {
		return device.Residency{}, err
	}
	return device.Residency{HostBytes: n}, nil
}

// checkManaged fails unless all n bytes at p are managed memory. The caller
// holds mu.
func (d *Device) checkManaged(p device.Ptr, n int64) error {
	if n <= 0 {
		return fmt.Errorf("host: %w: %d bytes of managed memory", device.ErrArgument, n)
	}
	if err := d.open(); err != nil {
		return err
	}
	if span, ok := d.live.Find(uint64(p), n); ok {
		start := device.Ptr(span.Start)
		if size, ok := d.managed[start]; ok && int64(p-start)+n <= size {
			return nil
		}
	}
	return fmt.Errorf("host: %w: %d bytes at %#x are not managed memory", device.ErrPointer, n, uint64(p))
}

var _ device.Manager = (*Device)(nil)
