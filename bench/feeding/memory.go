package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
	"unsafe"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/loader"
)

// memory measures epochs of a small array in memory: the first, including the
// making of the loader, and later ones.
func (b *bench) memory(ctx context.Context, m *harness.Memory) error {
	data := make([]float32, b.samples*b.length)
	for i := range data {
		data[i] = rand.Float32()
	}
	ds, err := dataset.NewMemoryOf(data, []int{b.length}, dataset.MemoryOptions{})
	if err != nil {
		return err
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), 4*len(data))
	f := feed{m: m, ds: ds, options: loader.Options{Batch: b.arrayBatch, Shuffle: true}}
	row := func(name string, t target, run func() (float64, error)) *sample {
		return &sample{target: t, Sample: measure.Sample{
			Row: measure.Row{
				Name: fmt.Sprintf("%s of %s x %d f32 in memory, batches of %d", name, units.Grouped(int64(b.samples)), b.length, b.arrayBatch),
				By:   "Pinion", Unit: "ms",
			},
			Check: func() error { return f.checkRows(ctx, bytes) },
			Run:   run,
		}}
	}
	return b.inTurn(ctx,
		row("epoch", atMost(3), func() (float64, error) {
			var ms float64
			err := f.with(b.epochs+2, func(l *loader.Loader) error {
				if _, err := epoch(ctx, l, nothing); err != nil {
					return err
				}
				start := time.Now()
				for range b.epochs {
					if _, err := epoch(ctx, l, nothing); err != nil {
						return err
					}
				}
				ms = measure.Since(start, time.Millisecond) / float64(b.epochs)
				return nil
			})
			return ms, err
		}),
		row("loader and first epoch", target{}, func() (float64, error) {
			var ms float64
			start := time.Now()
			err := f.with(1, func(l *loader.Loader) error {
				_, err := epoch(ctx, l, nothing)
				ms = measure.Since(start, time.Millisecond)
				return err
			})
			return ms, err
		}))
}
