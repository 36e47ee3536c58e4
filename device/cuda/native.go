package cuda

import "github.com/pinion-gpu/pinion/device"

// API implements [device.Native].
func (d *Device) API() device.API { return device.CUDA }

// WithContext implements [device.Native].
func (d *Device) WithContext(fn func() error) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	return fn()
}

// WithStream implements [device.Native].
func (d *Device) WithStream(s device.Stream, fn func(handle uintptr) error) error {
	cs, err := d.enterStream(s)
	if err != nil {
		return err
	}
	defer cs.leave()
	return fn(cs.handle)
}

var _ device.Native = (*Device)(nil)
