package host

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// CanAllocAsync implements [device.StreamAllocator].
func (d *Device) CanAllocAsync() bool { return true }

// AllocAsync implements [device.StreamAllocator]. The memory is there at once.
// It waits for s when memory is short and frees are queued there.
func (d *Device) AllocAsync(s device.Stream, n int64) (device.Ptr, error) {
	p, err := d.allocFor(s, n)
	if hs, ok := streamOf(s); errors.Is(err, device.ErrOutOfMemory) && ok {
		if d.freeing(hs) { // if not, the stream may have come to the last of it just now
			hs.drain()
		}
		p, err = d.allocFor(s, n)
	}
	return p, err
}

func (d *Device) allocFor(s device.Stream, n int64) (device.Ptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	hs, err := d.ownStream(s)
	if err == nil {
		hs.mu.Lock()
		err = hs.usable()
		hs.mu.Unlock()
	}
	if err != nil {
		return 0, err
	}
	p, err := d.alloc(n, false)
	if err == nil {
		d.async[p] = nil
	}
	return p, err
}

// freeing reports whether memory is freed on s by what is queued.
func (d *Device) freeing(s *stream) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, on := range d.async {
		if on == s {
			return true
		}
	}
	return false
}

// FreeAsync implements [device.StreamAllocator]. Until the stream comes to it,
// functions that were queued before may still look the memory up.
func (d *Device) FreeAsync(s device.Stream, p device.Ptr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	hs, err := d.ownStream(s)
	if err != nil {
		return err
	}
	if hs.capturing() {
		return errCapturing
	}
	if on, ok := d.async[p]; !ok || on != nil {
		return fmt.Errorf("host: free in stream order: %w: %#x is not the start of an allocation in stream order",
			device.ErrPointer, uint64(p))
	}
	if err := hs.push(op{kind: opCall, fn: func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.release(p)
	}}); err != nil {
		return err
	}
	d.async[p] = hs
	return nil
}

// release frees the memory of an allocation that nothing uses. The caller
// holds mu.
func (d *Device) release(p device.Ptr) error {
	n, _ := d.live.Remove(uint64(p))
	delete(d.async, p)
	d.used -= n
	if err := pagemem.Unmap(memory(p, n)); err != nil {
		return fmt.Errorf("host: free %d bytes: %w", n, err)
	}
	return nil
}

// SetReleaseThreshold implements [device.StreamAllocator]: nothing is kept
// here.
func (d *Device) SetReleaseThreshold(n int64) error { return d.TrimPool(n) }

// TrimPool implements [device.StreamAllocator].
func (d *Device) TrimPool(keep int64) error {
	if keep < 0 {
		return fmt.Errorf("host: trim pool: %w: %d bytes", device.ErrArgument, keep)
	}
	return d.open()
}

var _ device.StreamAllocator = (*Device)(nil)
