package main

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/units"
)

// sizes are how much of everything there is.
type sizes struct {
	photos     int           // that are made
	batch      int           // of photos
	decodes    int           // of a thread in one repeat
	samples    int           // of the small array,
	length     int           // with so many f32 each
	arrayBatch int           // of the small array
	epochs     int           // of the small array in one repeat, and of the long run
	images     int           // of the large file
	batches    []int         // of images
	step       time.Duration // of a device that has work to do
}

var (
	fullSizes = sizes{photos: 4096, batch: 64, decodes: 256, samples: 10_000, length: 256, arrayBatch: 128, epochs: 50,
		images: 12 << 10, batches: []int{64, 256}, step: 20 * time.Millisecond}
	quickSizes = sizes{photos: 24, batch: 8, decodes: 4, samples: 500, length: 16, arrayBatch: 50, epochs: 5,
		images: 32, batches: []int{2, 3}, step: time.Millisecond}
)

// bench is a run.
type bench struct {
	options
	sizes
	*document
	dev    device.Device
	tmp    string // folder that goes away with the run
	folder *folder
}

// measureAll measures dev, one group of rows after the other.
func measureAll(ctx context.Context, dev device.Device, o options) (b *bench, err error) {
	b = &bench{options: o, sizes: fullSizes, dev: dev, document: &document{
		Document:    harness.NewDocument[row](dev, "feeding", 5),
		JPEGDecoder: imaging.JPEGDecoder(),
		Workers:     runtime.GOMAXPROCS(0),
	}}
	if o.Quick {
		b.sizes, b.Repeats = quickSizes, 1
	}
	if b.tmp, err = os.MkdirTemp("", "pinion-feeding-"); err != nil {
		return b, err
	}
	defer os.RemoveAll(b.tmp)
	return b, b.Measure(ctx, dev, o.Only, []harness.Group{
		{Name: "cpu", Measure: b.cpu},
		{Name: "scaling", Measure: b.scaling},
		{Name: "core", Measure: b.core},
		{Name: "memory", Measure: b.memory},
		{Name: "mapped", Measure: b.mapped},
		{Name: "next-epoch", Measure: b.nextEpoch},
		{Name: "flat", Measure: b.flat},
		{Name: "gpu", Measure: b.gpu},
		{Name: "devices", Measure: b.devices},
	})
}

// inTurn measures samples and adds their rows.
func (b *bench) inTurn(ctx context.Context, samples ...*sample) error {
	return harness.Add(ctx, &b.Document, samples)
}

// pinionBy is who made a row of the loader with so many workers.
func pinionBy(workers int) string { return "Pinion, " + units.Count(workers, "worker") }
