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

// fits fails where a target that has no pool, which knows better, has less
// memory than need.
func (t *Target) fits(need int64, what string) error {
	if t.Pool != nil {
		return nil
	}
	dev := t.Engine.Device()
	m, err := dev.Memory()
	if err != nil {
		return err
	}
	if need > m.FreeBytes {
		return fmt.Errorf("%w: %s needs %s, and %s has %s free of %s", device.ErrOutOfMemory, what,
			units.Bytes(need), dev.Info().ID, units.Bytes(m.FreeBytes), units.Bytes(m.TotalBytes))
	}
	return nil
}
