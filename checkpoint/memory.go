package checkpoint

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/vram"
)

// memory is device memory of a target.
type memory struct {
	ptr  device.Ptr
	free func() error
}

// alloc takes n bytes, 0 of them as nothing.
func (t *Target) alloc(ctx context.Context, n int64, name string, staging bool) (*memory, error) {
	if n == 0 {
		return &memory{free: func() error { return nil }}, nil
	}
	if t.Pool != nil {
		use := vram.Use{Purpose: vram.Weights, Name: name}
		if staging {
			use.Purpose = vram.Staging
		}
		block, err := t.Pool.Alloc(ctx, n, use)
		if err != nil {
			return nil, err
		}
		return &memory{block.Ptr(), block.Free}, nil
	}
	dev := t.Engine.Device()
	p, err := dev.Alloc(n)
	if err != nil {
		return nil, err
	}
	return &memory{p, func() error { return dev.Free(p) }}, nil
}

// fits fails where targets have less memory than they need: needs bytes each, to
// do what. Targets on one device share it. One that has a pool, which knows
// better, is left out.
func fits(targets []Target, needs []int64, what []string) error {
	for i, t := range targets {
		if t.Pool != nil {
			continue
		}
		dev := t.Engine.Device()
		all := int64(0)
		for j, other := range targets {
			if other.Pool == nil && sameMemory(dev, other.Engine.Device()) {
				all += needs[j]
			}
		}
		m, err := dev.Memory()
		if err != nil {
			return err
		}
		if all <= m.FreeBytes {
			continue
		}
		with := ""
		if all > needs[i] {
			with = fmt.Sprintf(", %s with the other targets on the device", units.Bytes(all))
		}
		return fmt.Errorf("%w: %s needs %s%s, and %s has %s free of %s", device.ErrOutOfMemory, what[i],
			units.Bytes(needs[i]), with, dev.Info().ID, units.Bytes(m.FreeBytes), units.Bytes(m.TotalBytes))
	}
	return nil
}

// sameMemory reports whether two devices are one, which may have been opened
// twice.
func sameMemory(a, b device.Device) bool {
	id := a.Info().UUID
	return device.Same(a, b) || id != "" && id == b.Info().UUID
}
