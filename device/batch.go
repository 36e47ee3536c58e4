package device

import (
	"fmt"
	"math"
)

// Span is one copy of many: Bytes bytes from Src to Dst, which are addresses
// of device memory or of mapped pinned memory ([Pinner.Mapped]).
type Span struct {
	Dst, Src Ptr
	Bytes    int64
}

// BatchCopier is a device whose driver takes many copies in one call.
type BatchCopier interface {
	// CanCopyBatch reports whether the driver has the call.
	CanCopyBatch() bool

	// CopyBatch queues all copies, which may run in any order and beside each
	// other: no destination may overlap another or a source. The slice may be
	// used again when CopyBatch returns.
	CopyBatch(s Stream, spans []Span) error
}

// Check reports what is wrong with a span by itself: [ErrArgument] when it has
// no bytes, [ErrPointer] when it reaches over the end of the address space.
// Backends call it before they queue a span.
func (s Span) Check() error {
	if s.Bytes <= 0 {
		return fmt.Errorf("%w: %d bytes", ErrArgument, s.Bytes)
	}
	return checkRanges(s.Dst, s.Src, s.Bytes, s.Bytes)
}

// checkRanges checks that neither side of a copy reaches over the end of the
// address space.
func checkRanges(dst, src Ptr, dstBytes, srcBytes int64) error {
	if uint64(dst) > math.MaxUint64-uint64(dstBytes) {
		return fmt.Errorf("%w: %d bytes at %#x", ErrPointer, dstBytes, uint64(dst))
	}
	if uint64(src) > math.MaxUint64-uint64(srcBytes) {
		return fmt.Errorf("%w: %d bytes at %#x", ErrPointer, srcBytes, uint64(src))
	}
	return nil
}
