package host

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// Call implements [device.Caller].
func (d *Device) Call(s device.Stream, fn func() error) error {
	d.mu.RLock() // as in submit: nothing is queued behind a Close
	defer d.mu.RUnlock()
	hs, err := d.ownStream(s)
	if err != nil {
		return err
	}
	return hs.push(op{kind: opCall, fn: fn})
}

// Bytes implements [device.Caller].
func (d *Device) Bytes(p device.Ptr, n int64) ([]byte, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.gone { // a function that Close waits for may still ask
		return nil, errClosed
	}
	return d.find(p, n)
}

// ownStream checks that s can be used on d. While the caller holds mu, d stays
// open.
func (d *Device) ownStream(s device.Stream) (*stream, error) {
	hs, ok := streamOf(s)
	if !ok || hs.dev != d {
		return nil, fmt.Errorf("host: %w: the stream belongs to another device", device.ErrArgument)
	}
	return hs, d.open()
}

// streamOf finds the stream of this backend that s is, or wraps.
func streamOf(s device.Stream) (*stream, bool) {
	if hs, ok := s.(*stream); ok {
		return hs, true
	}
	return device.AsStream[*stream](s)
}

var _ device.Caller = (*Device)(nil)
