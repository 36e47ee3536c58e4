package slab

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/pinned"
)

// Slab is the host memory of one batch.
type Slab struct {
	Bytes  []byte
	buffer *pinned.Buffer // nil when the memory is pageable
}

// Slabs is the host memory of a loader for one device.
type Slabs struct {
	All    []*Slab
	Pinned bool
	Reason string       // why nothing is pinned
	pool   *pinned.Pool // nil when nothing is pinned
}

// Pin says whether slabs are page-locked: where it pays, unless one of the two
// is set. Budget is the most bytes that may be, by default that of package
// pinned.
type Pin struct {
	Always, Never bool
	Budget        int64
}

// pinPays is how many bytes have to be copied for pinning to pay: it takes
// tenths of a millisecond, in which the driver copies so many through its own
// pinned memory.
const pinPays = 4 << 20

// Make makes up to want slabs of n bytes each, at least one. all is how many
// bytes are to be copied in the end.
func Make(dev device.Device, want int, n, all int64, pin Pin) (*Slabs, error) {
	var reason string
	switch {
	case pin.Never:
		return pageableSlabs(want, n, "as asked")
	case !pin.Always:
		reason = noUse(dev, all)
	}
	if reason != "" {
		return pageableSlabs(want, n, reason)
	}
	s, err := pinnedSlabs(dev, want, n, pin.Budget)
	if err == nil {
		return s, nil
	}
	byDefault := pin.Budget == 0 && errors.Is(err, pinned.ErrBudget)
	if pin.Always || !byDefault && !errors.Is(err, device.ErrPinLimit) && !errors.Is(err, device.ErrNotSupported) {
		return nil, err
	}
	return pageableSlabs(want, n, err.Error())
}

// noUse says why pinning does not pay; "" if it does.
func noUse(dev device.Device, all int64) string {
	switch {
	case dev.Info().Integrated:
		return "the device shares the host's memory"
	case all < pinPays:
		return fmt.Sprintf("pinning takes longer than copying %s", units.Bytes(all))
	}
	return ""
}

// sharedSegment is the size of the segments in which a pool puts small slabs
// together.
const sharedSegment = 8 << 20

func pinnedSlabs(dev device.Device, want int, n, budget int64) (*Slabs, error) {
	options := pinned.Options{Name: "loader slabs", Budget: budget}
	if each := pagemem.RoundUp(n); int64(want) <= (sharedSegment-1)/each {
		options.SegmentBytes = int64(want) * each // no more than is needed
	}
	pool, err := pinned.NewPool(dev, options)
	if err != nil {
		return nil, err
	}
	s := &Slabs{pool: pool, Pinned: true}
	for range want {
		b, err := pool.Alloc(context.Background(), n)
		if err != nil && len(s.All) > 0 && (errors.Is(err, pinned.ErrBudget) || errors.Is(err, device.ErrPinLimit)) {
			break // less prefetch than asked for
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("a slab for one batch: %w", err), s.Close())
		}
		s.All = append(s.All, &Slab{Bytes: b.Bytes(), buffer: b})
	}
	return s, nil
}

func pageableSlabs(want int, n int64, reason string) (*Slabs, error) {
	s := &Slabs{Reason: reason}
	if room := sysmem.Available() / 2; room > 0 {
		want = int(min(int64(want), max(room/n, 1))) // less prefetch than asked for
	}
	for range want {
		b, err := pagemem.Map(n)
		if err != nil && len(s.All) > 0 {
			break
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("a slab of %s for one batch: %w", units.Bytes(n), err), s.Close())
		}
		pagemem.Huge(b)
		s.All = append(s.All, &Slab{Bytes: b[:n]})
	}
	return s, nil
}

// Close frees the slabs, of which none may be in use.
func (s *Slabs) Close() error {
	var errs []error
	for _, b := range s.All {
		if b.buffer != nil {
			errs = append(errs, b.buffer.Free())
		} else {
			errs = append(errs, pagemem.Unmap(b.Bytes[:cap(b.Bytes)]))
		}
	}
	s.All = nil
	if s.pool != nil {
		errs = append(errs, s.pool.Close())
	}
	return errors.Join(errs...)
}
