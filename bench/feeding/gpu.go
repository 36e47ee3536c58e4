package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/loader"
)

// gpu measures photos that the device decodes: into batches, with everything
// that belongs to it, and decoding alone, out of memory.
func (b *bench) gpu(ctx context.Context, m *harness.Memory) error {
	f, err := b.open(ctx)
	if err != nil {
		return err
	}
	return b.inTurn(ctx,
		b.deviceRow(ctx, m, f, "", dtype.F16, 0, atLeast(15_000)),
		b.deviceRow(ctx, m, f, "", dtype.F32, 0, atLeast(15_000)),
		b.deviceRow(ctx, m, f, "", dtype.F32, 0.1, target{}),
		b.deviceRow(ctx, m, f, "", dtype.F32, 0.2, target{}),
		b.deviceRow(ctx, m, f, "", dtype.F32, loader.AutoShare, target{}),
		b.decodeRow(m, f))
}

// deviceRow is the row of photos that become batches of d, of which workers decode
// a share.
func (b *bench) deviceRow(ctx context.Context, m *harness.Memory, f *folder, prefix string, d dtype.DType, share float64, t target, others ...device.Device) *sample {
	feed := feed{m: m, others: others, ds: f.photos, options: loader.Options{
		Batch: b.batch, Shuffle: true, DropLast: true, DType: d, Decode: loader.DecodeGPU, CPUShare: share,
	}}
	timed := max(4, f.photos.Len()/b.batch)
	by := pinionBy(b.Workers)
	if share > 0 {
		by += fmt.Sprintf(", which decode %.0f %%", 100*share)
	} else if share == loader.AutoShare {
		by += ", which help to decode"
	}
	return &sample{target: t, Sample: measure.Sample{
		Row: measure.Row{Name: prefix + b.photosTo(d) + ", decoded on the device", By: by, Unit: "images/s"},
		// Engines are a step away from libjpeg-turbo and so is resampling; where
		// there are none, edges of colour are further away.
		Check: func() error { return feed.checkImages(ctx, tolerance{mean: 1, most: 32}) },
		Run: func() (float64, error) {
			seconds, err := feed.steady(ctx, 12, timed)
			return float64(timed*b.batch) / seconds, err
		},
	}}
}

// decodeRow is the row of decoding batches alone.
func (b *bench) decodeRow(m *harness.Memory, f *folder) *sample {
	const batches = 16
	var decoder *nvjpeg.Decoder
	var pictures [][]nvjpeg.Picture
	return &sample{Sample: measure.Sample{
		Row: measure.Row{Name: fmt.Sprintf("%s on the device, batches of %d", decodePhotos, b.batch), By: "Pinion", Unit: "images/s"},
		Check: func() (err error) {
			if decoder, err = nvjpeg.Open(m.Dev, nvjpeg.Options{}); err != nil {
				return err
			}
			m.Later(decoder.Close)
			pictures, err = place(m, f, batches, b.batch)
			return err
		},
		Run: func() (float64, error) {
			start := time.Now()
			for _, p := range pictures {
				if err := errors.Join(decoder.Decode(m.Stream, p), m.Stream.Synchronize()); err != nil {
					return 0, err
				}
			}
			return float64(batches*b.batch) / measure.Since(start, time.Second), nil
		},
	}}
}

// place gives the photos of some batches device memory; all batches use the
// same.
func place(m *harness.Memory, f *folder, batches, batch int) ([][]nvjpeg.Picture, error) {
	all := make([][]nvjpeg.Picture, batches)
	most := 0
	for i := range all {
		for k := range batch {
			j, err := nvjpeg.Parse(f.files[(i*batch+k)%len(f.files)])
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], nvjpeg.Picture{JPEG: j, Pitch: 3 * j.Width})
			most = max(most, 3*j.Width*j.Height)
		}
	}
	to, err := m.Alloc(int64(most * batch))
	if err != nil {
		return nil, err
	}
	for _, pictures := range all {
		for k := range pictures {
			pictures[k].Dst = to + device.Ptr(k*most)
		}
	}
	return all, nil
}
