package vram

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
	case n <= largestSmall:
		return smallSegment
	case n < mediumSegment/2:
		return mediumSegment
	}
	return (n + segmentUnit - 1) &^ (segmentUnit - 1)
}

func (s *segmented) grow(n int64, o *owner, most int64) (*block, error) {
	p := s.heap.pool
	var last error
	for _, bytes := range []int64{segmentBytes(n), n} {
		if p.reserved.current.Load()+bytes > most {
			last = errBudget
			continue
		}
		ptr, err := p.dev.Alloc(bytes)
		if last = err; errors.Is(err, device.ErrOutOfMemory) {
			continue
		} else if err != nil {
			return nil, err
		}
		p.calls.Create++
		p.reserved.add(bytes)
		p.log(Event{Kind: EventMap, Address: ptr, Bytes: bytes})
		_, b := s.heap.add(ptr, bytes, free)
		return s.heap.occupy(b, n, o, false), nil
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
		if err = h.pool.dev.Free(r.ptr); err != nil {
			return false
		}
		h.unset(b)
		h.pool.retire(b)
		h.pool.calls.Release++
		h.pool.reserved.add(-r.bytes)
		h.pool.log(Event{Kind: EventUnmap, Address: r.ptr, Bytes: r.bytes})
		freed += r.bytes
		return true
	})
	return freed, err
}

func (s *segmented) squeeze(int64, *owner) (*block, error) { return nil, nil }

func (s *segmented) idle(*block, int64) {}

func (s *segmented) fromEnd(*block, int64) bool { return false }

func (s *segmented) divide(b *block, _ int64, _ bool) *block { return b }

func (s *segmented) movable(b *block) int64 {
	if b.bytes == b.region.bytes {
		return b.bytes
	}
	return 0
}

func (s *segmented) unmappedBytes() int64 { return 0 }

func (s *segmented) close() error {
	var errs []error
	for _, r := range s.heap.regions {
		errs = append(errs, s.heap.pool.dev.Free(r.ptr))
	}
	return errors.Join(errs...)
}
