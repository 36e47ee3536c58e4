package device

import (
	"fmt"
	"math"
	"math/bits"
)

// Box is a copy of Planes x Rows rows of RowBytes bytes each, between two
// places with strides of their own: a slice of a tensor. Addresses are as in
// [Span]. Strides are in bytes, from the start of a row, or of a plane, to
// that of the next.
type Box struct {
	Dst, Src                       Ptr
	RowBytes, Rows, Planes         int64
	DstRowStride, SrcRowStride     int64 // at least RowBytes
	DstPlaneStride, SrcPlaneStride int64 // at least Rows x the row stride
}

// BoxCopier is a device whose driver copies strided boxes.
type BoxCopier interface {
	// CanCopyBox reports whether the driver can copy a box of this shape: it
	// has limits on strides, and planes must be whole numbers of rows apart.
	CanCopyBox(b Box) bool

	// CopyBox queues the copy.
	CopyBox(s Stream, b Box) error
}

// Empty reports whether the box has no bytes, because one of its extents is
// zero.
func (b Box) Empty() bool { return b.RowBytes == 0 || b.Rows == 0 || b.Planes == 0 }

// Check reports what is wrong with a box by itself: [ErrArgument] when an
// extent is negative or when rows or planes would overlap, [ErrPointer] when
// it reaches over the end of the address space. The stride of a dimension of
// one may have any value. Backends call it before they queue a box.
func (b Box) Check() error {
	_, _, err := b.Reach()
	return err
}

// Reach is how many bytes lie between the start of the first row of the box
// and the end of its last, gaps included, at the destination and at the
// source: nothing for an empty box. It fails as [Box.Check] does.
func (b Box) Reach() (dst, src int64, err error) {
	if b.RowBytes < 0 || b.Rows < 0 || b.Planes < 0 {
		return 0, 0, fmt.Errorf("%w: a box of %d bytes x %d rows x %d planes", ErrArgument, b.RowBytes, b.Rows, b.Planes)
	}
	if b.Empty() {
		return 0, 0, nil
	}
	if dst, err = b.reach("destination", b.DstRowStride, b.DstPlaneStride); err != nil {
		return 0, 0, err
	}
	if src, err = b.reach("source", b.SrcRowStride, b.SrcPlaneStride); err != nil {
		return 0, 0, err
	}
	return dst, src, checkRanges(b.Dst, b.Src, dst, src)
}

// reach is Reach for one side.
func (b Box) reach(side string, rowStride, planeStride int64) (int64, error) {
	plane, n := b.RowBytes, b.RowBytes // the room of a plane, and to the end of its last row
	if b.Rows > 1 {
		if rowStride < b.RowBytes {
			return 0, fmt.Errorf("%w: %s rows of %d bytes lie %d apart", ErrArgument, side, b.RowBytes, rowStride)
		}
		var ok bool
		if plane, ok = product(b.Rows, rowStride); !ok {
			return 0, fmt.Errorf("%w: %d %s rows that lie %d bytes apart", ErrPointer, b.Rows, side, rowStride)
		}
		n = plane - rowStride + b.RowBytes
	}
	if b.Planes > 1 {
		if planeStride < plane {
			return 0, fmt.Errorf("%w: %s planes of %d bytes lie %d apart", ErrArgument, side, plane, planeStride)
		}
		before, ok := product(b.Planes-1, planeStride)
		if !ok || before > math.MaxInt64-n {
			return 0, fmt.Errorf("%w: %d %s planes that lie %d bytes apart", ErrPointer, b.Planes, side, planeStride)
		}
		n += before
	}
	return n, nil
}

// product multiplies two numbers that are not negative; not ok is beyond
// int64.
func product(a, b int64) (n int64, ok bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(lo), hi == 0 && lo <= math.MaxInt64
}
