package main

import (
	"context"
	"errors"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/vram"
)

// first measures the first block of a pool that has no memory yet, beside the
// driver's allocation of the same size.
func (b *bench) first(ctx context.Context, m *harness.Memory) error {
	m.Later(b.release)
	name := "first alloc of " + units.Bytes(b.firstBytes)
	var samples []*sample
	for _, w := range []*way{b.driver(m.Stream), b.async(m.Stream, false, 0)} {
		samples = append(samples, b.firstOf(name, func() (*way, func() error, error) {
			// Nothing is kept from one run to the next.
			return w, func() error { return nil }, w.prepare()
		}, w.by))
	}
	samples = append(samples, b.firstOf(name, func() (*way, func() error, error) {
		pool, err := vram.New(b.dev, vram.Options{})
		if err != nil {
			return nil, nil, err
		}
		return b.pinion(ctx, pool, m.Stream), pool.Close, nil
	}, byPinion))
	return b.inTurn(ctx, samples)
}

// firstOf makes the row of a way that is opened for each repeat.
func (b *bench) firstOf(name string, open func() (*way, func() error, error), by string) *sample {
	within := func(work func(*way) error) error {
		w, done, err := open()
		if err != nil {
			return err
		}
		return errors.Join(work(w), w.stream.Synchronize(), done())
	}
	return &sample{Sample: measure.Sample{
		Row: measure.Row{Name: name, By: by, Unit: "ms"},
		Check: func() error {
			return within(func(w *way) error { return distinct([]*way{w}, []int64{b.firstBytes}) })
		},
		Run: func() (ms float64, err error) {
			err = within(func(w *way) error {
				start := time.Now()
				l, err := w.alloc(0, b.firstBytes)
				ms = measure.Since(start, time.Millisecond)
				if err != nil {
					return err
				}
				return w.free(l)
			})
			return ms, err
		},
	}}
}
