package vram

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/errs"
)

var (
	// ErrClosed is returned by everything that is done with a pool after Close.
	ErrClosed = fmt.Errorf("pool %w", errs.ErrClosed)

	// ErrFreed is returned for a block that is not live any more: a second
	// Free, or the use of a block after its Free.
	ErrFreed = errors.New("block is not live")

	// ErrForeign is returned for a block or an address of another pool, or of
	// none.
	ErrForeign = errors.New("not memory of this pool")

	// ErrLimit is returned when a purpose would have more than its limit. It
	// comes inside an [OutOfMemoryError].
	ErrLimit = errors.New("limit of the purpose")
)

// OutOfMemoryError says why an allocation failed and what would have helped.
// errors.Is finds [device.ErrOutOfMemory] in it, and [ErrLimit] where that is
// the reason.
type OutOfMemoryError struct {
	Device  string
	Asked   int64 // bytes
	Purpose Purpose
	Name    string
	Stats   Stats         // when it failed
	Memory  device.Memory // of the device, all programs together
	Holders []Holder      // who have most, by purpose and name
	Advice  []string      // sentences
	cause   error
}

// Holder is live memory of one purpose and name.
type Holder struct {
	Purpose   Purpose
	Name      string
	Blocks    int64
	Allocated int64 // bytes
}

// Error is one line; [OutOfMemoryError.Report] has the rest.
func (e *OutOfMemoryError) Error() string {
	return fmt.Sprintf("vram: %v: asked for %d bytes (%v) on %s: %d live, %d reserved, %d free of which %d in one piece, device has %d of %d left",
		e.cause, e.Asked, e.Purpose, e.Device, e.Stats.Allocated.Current, e.Stats.Reserved.Current, e.Stats.Free, e.Stats.LargestFree,
		e.Memory.FreeBytes, e.Memory.TotalBytes)
}

// Unwrap gives what the allocation failed with.
func (e *OutOfMemoryError) Unwrap() []error { return []error{device.ErrOutOfMemory, e.cause} }
