package replay

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// Allocator is what a trace is replayed on. [Run] calls it from one goroutine.
type Allocator interface {
	// Alloc allocates e.Bytes for e.Stream. It fails with
	// [device.ErrOutOfMemory] if there is not that much; any other error ends
	// the replay.
	Alloc(ctx context.Context, e trace.Event) (Handle, error)

	// Free frees what Alloc returned, behind the work of e.Stream, which may
	// be another stream than that of the allocation.
	Free(h Handle, e trace.Event) error

	// Reserved is how many bytes the allocator has from the device. It is
	// called after every allocation and must be cheap.
	Reserved() int64

	// Counts is called once, at the end of the trace.
	Counts() Counts

	// Close releases all memory. Nothing may be live.
	Close() error
}

// Handle names a live allocation of an [Allocator].
type Handle int

// Counts are what an [Allocator] counted since it was made.
type Counts struct {
	DriverCalls int64 // that made, mapped or returned memory
	Retries     int64 // allocations that found memory short and got it in the end
}

var errHandle = fmt.Errorf("replay: free: %w: no such allocation", device.ErrPointer)

// slots keeps the allocations of an [Allocator] by handle. An interface value
// for each would be garbage within the time that is measured.
type slots[T any] struct {
	items []slot[T]
	free  []Handle
}

type slot[T any] struct {
	value T
	live  bool
}

func (s *slots[T]) put(value T) Handle {
	if last := len(s.free) - 1; last >= 0 {
		h := s.free[last]
		s.free = s.free[:last]
		s.items[h] = slot[T]{value, true}
		return h
	}
	s.items = append(s.items, slot[T]{value, true})
	return Handle(len(s.items) - 1)
}

func (s *slots[T]) take(h Handle) (value T, ok bool) {
	if h < 0 || int(h) >= len(s.items) || !s.items[h].live {
		return value, false
	}
	value = s.items[h].value
	s.items[h] = slot[T]{}
	s.free = append(s.free, h)
	return value, true
}
