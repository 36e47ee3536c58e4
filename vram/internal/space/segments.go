package space

import (
	"errors"
	"slices"

	"github.com/pinion-gpu/pinion/device"
)

// segmented backs a heap with allocations of the device, which can only be
// returned as a whole.
type segmented struct {
	heap *heap
}

// Segments for small blocks are larger than the blocks: the device's calls are
// slow.
const (
	smallSegment  = 2 << 20
	mediumSegment = 20 << 20 // for blocks of less than half of it
	segmentUnit   = 2 << 20
)

func segmentBytes(n int64) int64 {
	switch {
	case n <= LargestSmall:
		return smallSegment
	case n < mediumSegment/2:
		return mediumSegment
	}
	return (n + segmentUnit - 1) &^ (segmentUnit - 1)
}

func (s *segmented) grow(n int64, _ *Owner, most int64) (*Block, error) {
	space := s.heap.space
	var last error
	for _, bytes := range []int64{segmentBytes(n), n} {
		if space.Ledger.Current()+bytes > most {
			last = ErrBudget
			continue
		}
		ptr, err := space.Device.Alloc(bytes)
		if last = err; errors.Is(err, device.ErrOutOfMemory) {
			continue
		} else if err != nil {
			return nil, err
		}
		space.Ledger.Calls.Create++
		space.Ledger.Take(bytes)
		space.mapped(ptr, bytes)
		_, b := s.heap.add(ptr, bytes, free)
		return s.heap.occupy(b, n, false), nil
	}
	return nil, last
}

func (s *segmented) trim() (freed int64, err error) {
	h := s.heap
	h.regions = slices.DeleteFunc(h.regions, func(r *region) bool {
		b := r.first
		if err != nil || b.kind != free || b.owner != nil || b.bytes != r.bytes {
			return false
		}
		if err = h.space.Device.Free(r.ptr); err != nil {
			return false
		}
		h.unset(b)
		h.space.retire(b)
		h.space.Ledger.Calls.Release++
		h.space.Ledger.Return(r.bytes)
		h.space.unmapped(r.ptr, r.bytes)
		freed += r.bytes
		return true
	})
	return freed, err
}

func (s *segmented) scarce(int64) bool { return false }

func (s *segmented) squeeze(int64, *Owner) (*Block, error) { return nil, nil }

func (s *segmented) span(b *Block) (start, end int64) {
	if b.bytes == b.region.bytes {
		return 0, b.bytes
	}
	return 0, 0
}

func (s *segmented) count(*Block, int64) {}

func (s *segmented) fromEnd(*Block, int64) bool { return false }

func (s *segmented) divides(*Block, int64, bool) bool { return false }

func (s *segmented) divide(b *Block, _ int64, _ bool) *Block { return b }

func (s *segmented) close() error {
	var errs []error
	for _, r := range s.heap.regions {
		errs = append(errs, s.heap.space.Device.Free(r.ptr))
	}
	return errors.Join(errs...)
}
