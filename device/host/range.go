package host

import "github.com/pinion-gpu/pinion/device"

// CheckRange implements [device.RangeChecker].
func (d *Device) CheckRange(p device.Ptr, n int64) error {
	if err := d.open(); err != nil {
		return err
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	_, err := d.resolve(p, n)
	return err
}

var _ device.RangeChecker = (*Device)(nil)
