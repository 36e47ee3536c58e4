package tune

import (
	"context"
	"errors"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// linked reports whether a device is behind a link, over which pinned memory is
// copied faster.
func linked(dev device.Device) bool {
	_, can := device.As[device.Pinner](dev)
	return can && !dev.Info().Integrated
}

// copierCounts lists the numbers of copiers worth trying on that many
// processors: 8 to 16 fill a PCIe 5 link.
func copierCounts(processors int) (list []int) {
	if processors < 4 {
		return []int{1, 2}[:min(processors, 2)]
	}
	for n := 2; n <= min(processors, 16); n *= 2 {
		list = append(list, n)
	}
	return list
}

// findStaging leaves out what makes no difference: numbers of copiers with which
// even the largest slabs are left to the driver, and all chunks that hold a whole
// slab but the smallest of them. Where too little memory can be pinned for any
// copiers, the loader makes do with what there is.
func (f *feed) findStaging() error {
	s := &f.o.Space
	if s.Copiers == nil {
		return nil
	}
	var copiers []int
	for _, n := range s.Copiers {
		can, err := f.stages(n, f.slab(slices.Max(s.Batch)))
		if err != nil {
			return err
		}
		if can {
			copiers = append(copiers, n)
		}
	}
	if s.Copiers = copiers; copiers != nil {
		can, err := f.canPin(f.rings(Setting{Batch: slices.Max(s.Batch), Copiers: copiers[0], ChunkBytes: s.ChunkBytes[0]}))
		if err != nil {
			return err
		}
		if !can {
			s.Copiers = nil
		}
	}
	if s.Copiers == nil {
		s.ChunkBytes = nil
		return nil
	}
	s.chunks = map[int][]int64{}
	for _, batch := range s.Batch {
		can, err := f.stages(slices.Max(copiers), f.slab(batch))
		if err != nil {
			return err
		}
		if !can {
			continue
		}
		n := 1
		for n < len(s.ChunkBytes) && s.ChunkBytes[n-1] < f.slab(batch) {
			n++
		}
		s.chunks[batch] = s.ChunkBytes[:n]
	}
	return nil
}

// stages reports whether so many copiers are better for n bytes than the driver.
func (f *feed) stages(copiers int, n int64) (bool, error) {
	e, err := transfer.New(f.dev, transfer.Options{Copiers: copiers, SlotBytes: slices.Max(f.o.Space.ChunkBytes)})
	if err != nil {
		return false, err
	}
	return e.Stages(n, false), e.Close()
}

// canPin tries whether n bytes may be pinned.
func (f *feed) canPin(n int64) (can bool, err error) {
	if budget := f.pinBudget(); budget > 0 && n > budget {
		return false, nil
	}
	pool, err := pinned.NewPool(f.dev, pinned.Options{Name: "tune", Budget: n, SegmentBytes: n})
	if err != nil {
		return false, err
	}
	b, err := pool.Alloc(context.Background(), n)
	switch {
	case err == nil:
		can, err = true, b.Free()
	case errors.Is(err, device.ErrPinLimit):
		err = nil
	}
	return can, errors.Join(err, pool.Close())
}

// rings is the pinned memory that the copiers of a setting stage through, in
// bytes.
func (f *feed) rings(s Setting) int64 { return rings(s.Copiers, min(s.ChunkBytes, f.slab(s.Batch))) }

func rings(copiers int, chunk int64) int64 {
	const slots = 4 // of each, as the loader has them
	return times(int64(copiers), times(slots, pagemem.RoundUp(chunk)))
}

// ringsShort looks whether a loader that has copied got fewer rings than its
// copiers need: then it copied with fewer, or left it to the driver.
func (f *feed) ringsShort(s Setting, got loader.Stats) error {
	fewer := Setting{Batch: s.Batch, Copiers: s.Copiers - 1, ChunkBytes: s.ChunkBytes}
	if s.Copiers == 0 || got.StagingBytes > f.rings(fewer) {
		return nil
	}
	if got.StagingBytes == 0 {
		// Perhaps no batch was large enough: samples may be shorter than the
		// longest, or left out.
		staged, err := f.stages(s.Copiers, got.BytesToDevice/max(got.Batches, 1))
		if err != nil || !staged {
			return err
		}
	}
	f.refused = &DoesNotFitError{What: "pinned memory", AskedBytes: f.rings(s), FreeBytes: got.StagingBytes}
	return f.refused
}

// known is the error of a setting that needs as much for its rings as could not
// be pinned before: to try it again would take long where there are many.
func (f *feed) known(s Setting) error {
	if !s.staged() || f.refused == nil || f.rings(s) < f.refused.AskedBytes {
		return nil
	}
	return &DoesNotFitError{What: f.refused.What, AskedBytes: f.rings(s), FreeBytes: f.refused.FreeBytes}
}

// calibrateStaging measures what copies cost at the ends of the axes of copiers
// and of chunks, over what they cost at the base of v.
func (s *search) calibrateStaging(v *Variant) error {
	if s.late() {
		return nil
	}
	for _, n := range ends(s.space.Copiers) {
		set := v.base
		set.Copiers = n
		if err := s.calibrateCopy(v.base, set, n, &v.Copiers); err != nil {
			return err
		}
	}
	for _, n := range ends(s.space.ChunkBytes) {
		set := v.base
		set.ChunkBytes = n
		if err := s.calibrateCopy(v.base, set, int(n), &v.Chunks); err != nil {
			return err
		}
	}
	return nil
}

// calibrateCopy adds to a list what copies cost with set, over what they cost
// with base, which was measured before.
func (s *search) calibrateCopy(base, set Setting, place int, list *[]Value) error {
	m, at, ok, err := s.calibrateAt(set)
	if err != nil || !ok || at != set {
		return err
	}
	usual, cost := s.trials[base].free[0].seconds(link), m.seconds(link)
	if usual > 0 && cost > 0 {
		*list = append(*list, Value{place, cost / usual})
	}
	return nil
}
