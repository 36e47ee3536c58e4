package cuda

import (
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// API implements [device.Native].
func (d *Device) API() device.API { return device.CUDA }

// StreamOf implements [device.Native].
func (d *Device) StreamOf(handle uintptr) (device.Stream, error) {
	if handle == streamPerThread {
		return nil, fmt.Errorf("cuda: %w: the default stream of each thread is not one stream", device.ErrArgument)
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	var context uintptr
	if err := check("cuStreamGetCtx", api.streamGetCtx.Call(handle, uintptr(unsafe.Pointer(&context)))); err != nil {
		return nil, fmt.Errorf("cuda: %w: %#x is not a stream: %w", device.ErrArgument, handle, err)
	}
	if context != d.context {
		return nil, fmt.Errorf("cuda: %w: the stream %#x is not in the primary context of %s",
			device.ErrArgument, handle, d.info.ID)
	}
	s := &stream{dev: d, handle: handle, theirs: true}
	d.owned.Lock()
	d.streams[s] = struct{}{}
	d.owned.Unlock()
	return s, nil
}

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
