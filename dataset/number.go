package dataset

import (
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/dtype"
)

// Number is a Go type that an element type of package dtype stands for.
type Number interface {
	uint8 | int8 | uint16 | int16 | int32 | int64 | float32 | float64
}

// Bytes returns the memory of data, which is not copied, and the type of its
// elements.
func Bytes[T Number](data []T) ([]byte, dtype.DType) {
	var zero T
	var d dtype.DType
	switch any(zero).(type) {
	case uint8:
		d = dtype.U8
	case int8:
		d = dtype.I8
	case uint16:
		d = dtype.U16
	case int16:
		d = dtype.I16
	case int32:
		d = dtype.I32
	case int64:
		d = dtype.I64
	case float32:
		d = dtype.F32
	case float64:
		d = dtype.F64
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*d.Size()), d
}

// Elements returns the memory of b, which is not copied, as elements of T: a
// sample of a dataset of that type, as [Reader].Read and a [MapFunc] get it. It
// fails with [ErrArgument] where b holds no whole elements or begins at an
// address that T cannot have.
func Elements[T Number](b []byte) ([]T, error) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	start := unsafe.Pointer(unsafe.SliceData(b))
	if len(b)%size != 0 || uintptr(start)%unsafe.Alignof(zero) != 0 {
		return nil, fmt.Errorf("%w: %d bytes at address %#x are not a whole, aligned number of elements of %d bytes", ErrArgument, len(b), uintptr(start), size)
	}
	return unsafe.Slice((*T)(start), len(b)/size), nil
}
