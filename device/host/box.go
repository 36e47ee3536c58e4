package host

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// CanCopyBox implements [device.BoxCopier]: nothing limits the shape here.
func (d *Device) CanCopyBox(b device.Box) bool { return b.Check() == nil }

// CopyBox implements [device.BoxCopier].
func (d *Device) CopyBox(s device.Stream, b device.Box) error {
	dstBytes, srcBytes, err := b.Reach()
	if err != nil {
		return fmt.Errorf("host: %w", err)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	hs, err := d.ownStream(s)
	if err != nil {
		return err
	}
	dst, err := d.resolve(b.Dst, dstBytes)
	if err != nil {
		return err
	}
	src, err := d.resolve(b.Src, srcBytes)
	if err != nil {
		return err
	}
	return hs.push(op{kind: opCall, fn: func() error {
		copyBox(dst, src, b)
		return nil
	}})
}

// copyBox copies row by row between memory that the box reaches over.
func copyBox(dst, src []byte, b device.Box) {
	if b.Empty() {
		return
	}
	for z := range b.Planes {
		for y := range b.Rows {
			to := z*b.DstPlaneStride + y*b.DstRowStride
			from := z*b.SrcPlaneStride + y*b.SrcRowStride
			copy(dst[to:to+b.RowBytes], src[from:])
		}
	}
}

var _ device.BoxCopier = (*Device)(nil)
