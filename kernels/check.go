package kernels

import (
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// operand is a range of device memory that a call names.
type operand struct {
	name  string
	p     device.Ptr
	bytes int64
	align int64 // what p must be a multiple of
}

// check refuses an operand that no device could access.
func (o operand) check() error {
	switch {
	case o.bytes == 0:
		return nil
	case o.p == 0:
		return fmt.Errorf("%w: %s is zero, for %d bytes", device.ErrArgument, o.name, o.bytes)
	case uint64(o.p)%uint64(o.align) != 0:
		return fmt.Errorf("%w: %s %#x is not a multiple of %d, the size of its elements",
			device.ErrArgument, o.name, uint64(o.p), o.align)
	case uint64(o.p)+uint64(o.bytes) < uint64(o.p):
		return fmt.Errorf("%w: %s: %d bytes at %#x run over the end of the address space",
			device.ErrArgument, o.name, o.bytes, uint64(o.p))
	}
	return nil
}

// checkOperands checks written, the operands that are read, and that they do
// not overlap.
func checkOperands(written operand, read ...operand) error {
	if err := written.check(); err != nil {
		return err
	}
	for _, o := range read {
		if err := o.check(); err != nil {
			return err
		}
		if written.bytes > 0 && o.bytes > 0 &&
			written.p < o.p.Add(o.bytes) && o.p < written.p.Add(written.bytes) {
			return fmt.Errorf("%w: %s (%d bytes at %#x) and %s (%d bytes at %#x) overlap", device.ErrArgument,
				written.name, written.bytes, uint64(written.p), o.name, o.bytes, uint64(o.p))
		}
	}
	return nil
}

// product multiplies sizes that are not negative.
func product(what string, factors ...int64) (int64, error) {
	n := uint64(1)
	for _, f := range factors {
		if f == 0 {
			return 0, nil // whatever the others are
		}
	}
	for _, f := range factors {
		high, low := bits.Mul64(n, uint64(f))
		if high != 0 || low > math.MaxInt64 {
			return 0, fmt.Errorf("%w: %s: the product of %d is more than 63 bits", device.ErrArgument, what, factors)
		}
		n = low
	}
	return int64(n), nil
}

// view is b as elements of T. Devices align allocations, so only a backend
// that breaks its contract gets the error.
func view[T any](b []byte) ([]T, error) {
	var zero T
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%unsafe.Alignof(zero) != 0 {
		return nil, fmt.Errorf("kernels: %w: memory at %p is not aligned to %d bytes, but its device address is",
			device.ErrPointer, p, unsafe.Alignof(zero))
	}
	return unsafe.Slice((*T)(p), uintptr(len(b))/unsafe.Sizeof(zero)), nil
}
