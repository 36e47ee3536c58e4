package main

import (
	"context"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/loader"
)

// devices measures one loader that feeds all devices of the backend, beside one
// that feeds only the first. With a single device there is nothing to measure.
func (b *bench) devices(ctx context.Context, m *harness.Memory) error {
	others, err := m.Others()
	if err != nil || len(others) == 0 {
		return err
	}
	return b.onAll(ctx, m, others)
}

// onAll measures with batches that m's device and the others take in turn.
func (b *bench) onAll(ctx context.Context, m *harness.Memory, others []device.Device) error {
	f, err := b.open(ctx)
	if err != nil {
		return err
	}
	raw, _, err := b.rawImages(ctx, m)
	if err != nil {
		return err
	}
	var samples []*sample
	for _, others := range [][]device.Device{nil, others} {
		on := "on " + units.Count(1+len(others), "device") + ": "
		samples = append(samples,
			b.photosRow(ctx, m, f, on+b.photosTo(dtype.F16), b.Workers, dtype.F16, others...),
			b.deviceRow(ctx, m, f, on, dtype.F16, 0, target{}, others...))
		for _, batch := range b.batches {
			samples = append(samples,
				b.imagesRow(ctx, m, on+imagesTo("a file", dtype.U8, batch), raw, loader.Options{Batch: batch, DType: dtype.U8}, others...))
		}
	}
	if err := b.inTurn(ctx, samples...); err != nil {
		return err
	}
	kinds := len(samples) / 2
	for i, one := range samples[:kinds] {
		all := samples[kinds+i]
		b.share(all.Row.Name+", of one", all, one, 1, target{})
	}
	return nil
}
