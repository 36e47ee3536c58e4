package loader

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/pinned"
)

// slab is the host memory of one batch.
type slab struct {
	bytes  []byte
	buffer *pinned.Buffer // nil when the memory is pageable
	files  []file         // of each slot, where the device decodes
}

// prefetchBytes is what is read ahead at most by default. More large slabs take
// more memory and are no faster: batches of 48 MiB came at 46.5 GB/s with 2 read
// ahead, at 45.4 with 4 and at 41.7 with 8, since slabs take turns and a cache
// holds all of them or none (run 2026-11-22-h200-3).
const prefetchBytes = 128 << 20

// slabs is the loader's host memory.
type slabs struct {
	all    []*slab
	pool   *pinned.Pool // nil when nothing is pinned
	pinned bool
	reason string // why nothing is pinned
}

// pinPays is how many bytes have to be copied for pinning to pay: it takes
// tenths of a millisecond, in which the driver copies so many through its own
// pinned memory.
const pinPays = 4 << 20

// makeSlabs makes up to want slabs of n bytes each, at least one, for all bytes
// that are to be copied.
func makeSlabs(dev device.Device, want int, n, all int64, pin Pinning, budget int64) (*slabs, error) {
	reason := "as asked"
	if pin == PinAuto {
		reason = noUse(dev, all)
	}
	if pin == PinAlways || reason == "" {
		s, err := pinnedSlabs(dev, want, n, budget)
		if err == nil {
			return s, nil
		}
		byDefault := budget == 0 && errors.Is(err, pinned.ErrBudget)
		if pin == PinAlways || !byDefault && !errors.Is(err, device.ErrPinLimit) && !errors.Is(err, device.ErrNotSupported) {
			return nil, err
		}
		return pageableSlabs(want, n, err.Error())
	}
	return pageableSlabs(want, n, reason)
}

// noUse says why pinning does not pay; "" if it does.
func noUse(dev device.Device, all int64) string {
	switch {
	case dev.Info().Integrated:
		return "the device shares the host's memory"
	case all < pinPays:
		return fmt.Sprintf("%d bytes in all are copied sooner than pinned", all)
	}
	return ""
}

// sharedSegment is the size of the segments in which a pool puts small slabs
// together.
const sharedSegment = 8 << 20

func pinnedSlabs(dev device.Device, want int, n, budget int64) (*slabs, error) {
	options := pinned.Options{Name: "loader slabs", Budget: budget}
	if each := pagemem.RoundUp(n); int64(want) <= (sharedSegment-1)/each {
		options.SegmentBytes = int64(want) * each // no more than is needed
	}
	pool, err := pinned.NewPool(dev, options)
	if err != nil {
		return nil, err
	}
	s := &slabs{pool: pool, pinned: true}
	for range want {
		b, err := pool.Alloc(n)
		if err != nil && len(s.all) > 0 && (errors.Is(err, pinned.ErrBudget) || errors.Is(err, device.ErrPinLimit)) {
			break // less prefetch than wished for
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("loader: a slab for one batch: %w", err), s.close())
		}
		s.all = append(s.all, &slab{bytes: b.Bytes(), buffer: b})
	}
	return s, nil
}

func pageableSlabs(want int, n int64, reason string) (*slabs, error) {
	s := &slabs{reason: reason}
	if room := sysmem.Available() / 2; room > 0 {
		want = int(min(int64(want), max(room/n, 1))) // less prefetch than wished for
	}
	for range want {
		b, err := pagemem.Map(n)
		if err != nil && len(s.all) > 0 {
			break
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("loader: a slab of %d bytes for one batch: %w", n, err), s.close())
		}
		pagemem.Huge(b)
		s.all = append(s.all, &slab{bytes: b[:n]})
	}
	return s, nil
}

// close frees the slabs, of which none may be in use.
func (s *slabs) close() error {
	var errs []error
	for _, b := range s.all {
		if b.buffer != nil {
			errs = append(errs, b.buffer.Free())
		} else {
			errs = append(errs, pagemem.Unmap(b.bytes[:cap(b.bytes)]))
		}
	}
	s.all = nil
	if s.pool != nil {
		errs = append(errs, s.pool.Close())
	}
	return errors.Join(errs...)
}
