package main

import (
	"context"
	"runtime"
	"time"

	"github.com/pinion-gpu/pinion/internal/measure"
)

// queued measures what it costs to queue a copy of 4 KiB, without the copy:
// time, and allocations of the Go heap. The time depends on the core that the
// thread is on, so that these rows make a document of their own.
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
	fill(from, 2)
	queue := func() error {
		for range rounds {
			if err := m.Stream.CopyH2D(to, from[:size]); err != nil {
				return err
			}
		}
		return nil
	}
	check := func() error {
		for i := range int64(rounds) {
			if err := m.Stream.CopyH2D(to.Add(i*size), from[i*size:][:size]); err != nil {
				return err
			}
		}
		got := make([]byte, len(from))
		if err := m.download(got, to); err != nil {
			return err
		}
		return same(got, from)
	}
	const name = "4 KiB pinned h2d, queued"
	return b.inTurn(ctx, []*sample{
		{Sample: measure.Sample{
			Row:   measure.Row{Name: name, Unit: "us"},
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
		{Sample: measure.Sample{
			Row:   measure.Row{Name: name + ": allocations", Unit: "allocs"},
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
		}},
	})
}
