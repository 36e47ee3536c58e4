package cuda

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// memcpy3D is CUDA_MEMCPY3D.
type memcpy3D struct {
	src, dst            memcpy3DSide
	width, rows, planes uint64
}

// memcpy3DSide is one half of it.
type memcpy3DSide struct {
	x, y, z, level  uint64
	memoryType      int32
	host, device    uint64
	array, reserved uint64
	pitch           uint64 // bytes from row to row
	height          uint64 // rows from plane to plane
}

var boxes = sync.Pool{New: func() any { return new(memcpy3D) }}

// CanCopyBox implements [device.BoxCopier].
func (d *Device) CanCopyBox(b device.Box) bool {
	if b.Check() != nil {
		return false
	}
	if b = withoutSingleRows(b); b.Empty() || b.Rows == 1 {
		return true
	}
	for _, side := range [][2]int64{{b.DstRowStride, b.DstPlaneStride}, {b.SrcRowStride, b.SrcPlaneStride}} {
		if side[0] > d.maxPitch || b.Planes > 1 && side[1]%side[0] != 0 {
			return false
		}
	}
	return true
}

// CopyBox implements [device.BoxCopier].
func (d *Device) CopyBox(s device.Stream, b device.Box) error {
	if err := b.Check(); err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	if !d.CanCopyBox(b) {
		return fmt.Errorf("cuda: %w: a box with strides of %d and %d bytes at the destination, %d and %d at the source (rows are at most %d apart, planes a multiple of that)",
			device.ErrNotSupported, b.DstRowStride, b.DstPlaneStride, b.SrcRowStride, b.SrcPlaneStride, d.maxPitch)
	}
	cs, err := d.enterStream(s)
	if err != nil {
		return err
	}
	defer cs.leave()
	if b.Empty() {
		return nil
	}
	call, r := "cuMemcpy3DAsync", uintptr(0)
	if b = withoutSingleRows(b); b.Rows == 1 {
		call = "cuMemcpyDtoDAsync"
		r = api.memcpyDtoDAsync.Call4(uintptr(b.Dst), uintptr(b.Src), uintptr(b.RowBytes), cs.handle)
	} else {
		c := boxes.Get().(*memcpy3D)
		defer boxes.Put(c)
		*c = memcpy3D{
			src:   side(b.Src, b.SrcRowStride, b.SrcPlaneStride, b.Rows, b.Planes),
			dst:   side(b.Dst, b.DstRowStride, b.DstPlaneStride, b.Rows, b.Planes),
			width: uint64(b.RowBytes), rows: uint64(b.Rows), planes: uint64(b.Planes),
		}
		r = api.memcpy3DAsync.Call4(uintptr(unsafe.Pointer(c)), cs.handle, 0, 0)
	}
	if r != 0 {
		return fmt.Errorf("cuda: a box of %d bytes x %d rows x %d planes, %#x to %#x: %w",
			b.RowBytes, b.Rows, b.Planes, uint64(b.Src), uint64(b.Dst), pointerError(check(call, r)))
	}
	return nil
}

func side(p device.Ptr, rowStride, planeStride, rows, planes int64) memcpy3DSide {
	height := rows
	if planes > 1 {
		height = planeStride / rowStride
	}
	return memcpy3DSide{
		memoryType: memoryTypeUnified, device: uint64(p),
		pitch: uint64(rowStride), height: uint64(height),
	}
}

// withoutSingleRows makes planes of one row the rows of one plane, where their
// stride has fewer limits.
func withoutSingleRows(b device.Box) device.Box {
	if b.Rows == 1 {
		b.Rows, b.Planes = b.Planes, 1
		b.DstRowStride, b.SrcRowStride = b.DstPlaneStride, b.SrcPlaneStride
	}
	return b
}

var _ device.BoxCopier = (*Device)(nil)
