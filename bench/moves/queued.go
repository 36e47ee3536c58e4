package main

import (
	"context"
	"runtime"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/transfer"
)

// queued measures what it costs to queue a copy of 4 KiB on a stream, without
// the copy itself: time, and allocations of the Go heap. The copy is queued
// through an engine, and, to tell what the engine adds, by the device's own
// call. The time depends on the core that the thread is on, so these rows make
// a document of their own.
func (b *bench) queued(ctx context.Context, m *memory) error {
	const size, rounds = 4 << 10, 256
	b.What = "queued"
	if b.core >= 0 {
		if err := stayOn(b.core); err != nil {
			return err
		}
	}
	from, err := m.pinned(size * rounds)
	if err != nil {
		return err
	}
	to, err := m.Alloc(size * rounds)
	if err != nil {
		return err
	}
	engine, err := m.engine(transfer.Options{})
	if err != nil {
		return err
	}
	fill(from, 2)
	var samples []*sample
	for _, way := range []struct {
		name string
		copy func(dst device.Ptr, src []byte) error
	}{
		{"4 KiB pinned h2d, queued", func(dst device.Ptr, src []byte) error {
			return engine.Do(ctx, transfer.Copy{Host: src, Device: dst, On: m.Stream})
		}},
		{"4 KiB pinned h2d, queued, by the device's call", m.Stream.CopyH2D},
	} {
		queue := func() error {
			for range rounds {
				if err := way.copy(to, from[:size]); err != nil {
					return err
				}
			}
			return nil
		}
		check := func() error {
			for i := range int64(rounds) {
				if err := way.copy(to.Add(i*size), from[i*size:][:size]); err != nil {
					return err
				}
			}
			got := make([]byte, len(from))
			if err := m.download(got, to); err != nil {
				return err
			}
			return same(got, from)
		}
		samples = append(samples,
			&sample{Sample: measure.Sample{
				Row:   measure.Row{Name: way.name, Unit: "us"},
				Check: check,
				Run: func() (float64, error) {
					start := time.Now()
					err := queue()
					took := time.Since(start)
					if err == nil {
						err = m.Stream.Synchronize()
					}
					return took.Seconds() / rounds, err
				},
				Figure: func(seconds float64) float64 { return seconds * 1e6 },
			}},
			&sample{Sample: measure.Sample{
				Row:   measure.Row{Name: way.name + ": allocations", Unit: "allocs"},
				Check: check,
				Run: func() (float64, error) {
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					err := queue()
					runtime.ReadMemStats(&after)
					if err == nil {
						err = m.Stream.Synchronize()
					}
					return float64(after.Mallocs-before.Mallocs) / rounds, err
				},
			}})
	}
	return b.inTurn(ctx, samples)
}
