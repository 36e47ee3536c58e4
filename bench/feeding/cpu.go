package main

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/loader"
)

const decodePhotos = "decode photos"

// cpu measures photos that workers decode, on all processors, beside what one
// thread decodes and what as many threads do at once: those share caches and
// clocks.
func (b *bench) cpu(ctx context.Context, m *harness.Memory) error {
	f, err := b.open(ctx)
	if err != nil {
		return err
	}
	f32 := b.photosRow(ctx, m, f, b.photosTo(dtype.F32), b.Workers, dtype.F32)
	f16 := b.photosRow(ctx, m, f, b.photosTo(dtype.F16), b.Workers, dtype.F16)
	one := b.bareRow(ctx, m, f, decodePhotos, 1)
	all := one
	samples := []*sample{f32, f16, one}
	if b.Workers > 1 {
		all = b.bareRow(ctx, m, f, decodePhotos, b.Workers)
		samples = append(samples, all)
	}
	if err := b.inTurn(ctx, samples...); err != nil {
		return err
	}
	for _, s := range []*sample{f32, f16} {
		b.share(fmt.Sprintf("%s, of %d x one thread's decode", s.Row.Name, b.Workers), s, one, float64(b.Workers), atLeast(80))
		b.share(fmt.Sprintf("%s, of the decode of %s at once", s.Row.Name, units.Count(b.Workers, "thread")), s, all, 1, target{})
	}
	return nil
}

// photosRow is the row of photos that so many workers decode.
func (b *bench) photosRow(ctx context.Context, m *harness.Memory, f *folder, name string, workers int, d dtype.DType, others ...device.Device) *sample {
	feed := feed{m: m, others: others, ds: f.photos, options: loader.Options{
		Batch: b.batch, Workers: workers, Shuffle: true, DropLast: true, DType: d, Decode: loader.DecodeCPU,
	}}
	skip, timed := b.span(workers)
	return &sample{Sample: measure.Sample{
		Row:   measure.Row{Name: name, By: pinionBy(workers), Unit: "images/s"},
		Check: func() error { return feed.checkImages(ctx, exact(d)) },
		Run: func() (float64, error) {
			seconds, err := feed.steady(ctx, skip, timed)
			return float64(timed*b.batch) / seconds, err
		},
	}}
}

// span is how many batches of photos fill the pipeline, and how many are timed:
// enough for each worker to decode 128 photos or more.
func (b *bench) span(workers int) (skip, timed int) { return 4, max(4, 2*workers) }

// scaling measures the same by the number of workers, and so for bare decoding.
func (b *bench) scaling(ctx context.Context, m *harness.Memory) error {
	f, err := b.open(ctx)
	if err != nil {
		return err
	}
	var numbers []int
	for n := 1; n < b.Workers; n *= 2 {
		numbers = append(numbers, n)
	}
	numbers = append(numbers, b.Workers)
	var feeds, decodes []*sample
	for _, n := range numbers {
		feeds = append(feeds, b.photosRow(ctx, m, f, "by workers: "+b.photosTo(dtype.F16), n, dtype.F16))
		decodes = append(decodes, b.bareRow(ctx, m, f, "by threads: "+decodePhotos, n))
	}
	if err := b.inTurn(ctx, append(feeds, decodes...)...); err != nil {
		return err
	}
	for i, n := range numbers[1:] {
		t := target{}
		if n == 8 {
			t = atLeast(85)
		}
		b.share("by workers: of linear", feeds[i+1], feeds[0], float64(n), t)
	}
	for i, n := range numbers[1:] {
		b.share("by threads: of linear", decodes[i+1], decodes[0], float64(n), target{})
	}
	return nil
}

// core measures one goroutine that makes samples of photos in memory, beside
// one that only decodes them.
func (b *bench) core(ctx context.Context, m *harness.Memory) error {
	f, err := b.open(ctx)
	if err != nil {
		return err
	}
	decode := b.bareRow(ctx, m, f, "one core: "+decodePhotos, 1)
	samples := []*sample{decode}
	const name = "one core: photos to 224-px u8"
	for _, way := range []struct {
		by        string
		transform imaging.Transform
	}{
		{"Pinion, center crop", imaging.CenterCrop(224)},
		{"Pinion, random crop and flip", imaging.RandomResizedCrop(224).WithFlip(0.5)},
	} {
		d := f.newDecoders(m, 1)
		d.threads[0].pixels = make([]byte, way.transform.Bytes())
		key := uint64(0)
		samples = append(samples, &sample{Sample: measure.Sample{
			Row:   measure.Row{Name: name, By: way.by, Unit: "images/s"},
			Check: checkTurbo,
			Run: func() (float64, error) {
				return d.rate(ctx, b.decodes, func(d *decoder, file []byte) error {
					key++
					return d.DecodeTransformed(ctx, d.pixels, file, way.transform, key)
				})
			},
		}})
	}
	if err := b.inTurn(ctx, samples...); err != nil {
		return err
	}
	for _, s := range samples[1:] {
		b.share(name+", of bare decode", s, decode, 1, atLeast(85))
	}
	return nil
}
