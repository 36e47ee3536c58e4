package outofcore

import (
	"cmp"
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// Matrix is a row-major matrix in host memory: a slice ([Float32], [BFloat16]),
// or the bytes of a mapped file. Pinned memory is copied straight, all other
// through the engine's copiers.
type Matrix struct {
	Bytes         []byte // little-endian, aligned to an element
	Type          dtype.DType
	Rows, Columns int64
	Stride        int64 // elements from row to row; default: Columns
}

// Float32 is a matrix of the elements of v, which stays the caller's.
func Float32(v []float32, rows, columns int64) Matrix {
	return Matrix{Bytes: bytesOf(v), Type: dtype.F32, Rows: rows, Columns: columns}
}

// BFloat16 is a matrix of the bfloat16 numbers whose bits are in v, which stays
// the caller's.
func BFloat16(v []uint16, rows, columns int64) Matrix {
	return Matrix{Bytes: bytesOf(v), Type: dtype.BF16, Rows: rows, Columns: columns}
}

func bytesOf[T float32 | uint16](v []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(zero)))
}

func (m *Matrix) stride() int64 { return cmp.Or(m.Stride, m.Columns) }

// check finds what is wrong with a matrix that should have that shape and type.
func (m *Matrix) check(name string, rows, columns int64, t dtype.DType) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s "+format, append([]any{device.ErrArgument, name}, args...)...)
	}
	size := int64(t.Size())
	switch {
	case m.Rows != rows || m.Columns != columns:
		return bad("is %d x %d, want %d x %d", m.Rows, m.Columns, rows, columns)
	case m.Type != t:
		return bad("has elements of type %v, want %v", m.Type, t)
	case m.stride() < columns:
		return bad("has rows of %d elements that are %d apart", columns, m.Stride)
	case int64(len(m.Bytes))/size < columns || (int64(len(m.Bytes))/size-columns)/m.stride() < rows-1:
		return bad("has %d bytes, too few for %d rows of %d elements of %v, %d apart",
			len(m.Bytes), rows, columns, t, m.stride())
	}
	return nil
}

// window is a part of a matrix: where it begins, and how its rows lie.
type window struct {
	bytes    []byte // from its first element to behind its last
	rowBytes int64
	rows     int64
	stride   int64 // bytes
}

func (m *Matrix) window(row, column, rows, columns int64) window {
	size := int64(m.Type.Size())
	w := window{rowBytes: columns * size, rows: rows, stride: m.stride() * size}
	from := row*w.stride + column*size
	w.bytes = m.Bytes[from : from+(rows-1)*w.stride+w.rowBytes]
	return w
}

// whole reports whether the window has no gaps.
func (w *window) whole() bool { return w.rows == 1 || w.stride == w.rowBytes }

// overlap reports whether a and b share a byte.
func overlap(a, b []byte) bool {
	from, to := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return len(a) > 0 && len(b) > 0 && from < to+uintptr(len(b)) && to < from+uintptr(len(a))
}
