package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/loader"
)

// nextEpoch measures the time from the end of an epoch of photos to the first
// batch of the next one: for a device that works on each batch for a while, and
// for one that takes batches as fast as they come, where it is the time of any
// batch.
func (b *bench) nextEpoch(ctx context.Context, m *harness.Memory) error {
	f, err := b.open(ctx)
	if err != nil {
		return err
	}
	some, err := f.some(16 * b.batch)
	if err != nil {
		return err
	}
	feed := b.fewPhotos(m, some)
	batches := (some.Len() + b.batch - 1) / b.batch
	row := func(name string, t target, step time.Duration) *sample {
		return &sample{target: t, Sample: measure.Sample{
			Row:   measure.Row{Name: "next epoch's first batch of photos, " + name, By: pinionBy(b.Workers), Unit: "ms"},
			Check: func() error { return feed.checkImages(ctx, exact(dtype.F16)) },
			Run: func() (ms float64, err error) {
				err = feed.with(2, func(l *loader.Loader) error {
					ms, err = between(ctx, l, batches, step)
					return err
				})
				return ms, err
			},
		}}
	}
	return b.inTurn(ctx,
		row(fmt.Sprintf("steps of %v", b.step), atMost(5), b.step),
		row("no steps", target{}, 0))
}

// fewPhotos feeds some photos, over and over.
func (b *bench) fewPhotos(m *harness.Memory, some *dataset.Subset) feed {
	return feed{m: m, ds: some, options: loader.Options{Batch: b.batch, Shuffle: true, DType: dtype.F16, Decode: loader.DecodeCPU}}
}

// between takes an epoch of so many batches, in steps that take a while, and
// returns the milliseconds from its end to the first batch of the next.
func between(ctx context.Context, l *loader.Loader, batches int, step time.Duration) (ms float64, err error) {
	for n := 0; ; n++ {
		start := time.Now() // the batch before was given back a moment ago
		b, err := l.Next(ctx)
		if err != nil {
			return 0, err
		}
		ms = measure.Since(start, time.Millisecond)
		if b.Epoch != n/batches || b.Number != n%batches {
			return 0, fmt.Errorf("batch %d of epoch %d, want %d of %d", b.Number, b.Epoch, n%batches, n/batches)
		}
		if n < batches {
			time.Sleep(step)
		}
		if err := b.Release(); err != nil || n == batches {
			return ms, err
		}
	}
}

// flat looks at what the process holds while epochs of a few photos go by.
func (b *bench) flat(ctx context.Context, m *harness.Memory) error {
	f, err := b.open(ctx)
	if err != nil {
		return err
	}
	some, err := f.some(4 * b.batch)
	if err != nil {
		return err
	}
	early, late := b.epochs/5, 2*b.epochs
	feed := b.fewPhotos(m, some)
	before, err := look(m)
	if err != nil {
		return err
	}
	var at [2]held
	// There is more to come, so that the loader is at work when it is looked at.
	err = feed.with(late+2, func(l *loader.Loader) error {
		for e := 1; e <= late; e++ {
			n, err := epoch(ctx, l, nothing)
			if err != nil {
				return err
			}
			if n != some.Len() {
				return fmt.Errorf("epoch %d: %w after %d samples of %d", e, io.ErrUnexpectedEOF, n, some.Len())
			}
			for i, when := range []int{early, late} {
				if e == when {
					if at[i], err = look(m); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	after, err := look(m)
	if err != nil {
		return err
	}
	b.compareHeld(early, late, before, at[0], at[1], after)
	return nil
}

// held is what a process has taken.
type held struct {
	heap, resident, device float64 // MiB
	goroutines             float64
}

// look counts, without garbage.
func look(m *harness.Memory) (h held, err error) {
	const mib = 1 << 20
	h.heap = float64(harness.HeapBytes()) / mib
	debug.FreeOSMemory()
	resident, _, err := harness.Resident()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return h, err
	}
	h.resident = float64(resident) / mib
	memory, err := m.Dev.Memory()
	if err != nil {
		return h, err
	}
	h.device = float64(memory.TotalBytes-memory.FreeBytes) / mib
	h.goroutines = float64(runtime.NumGoroutine())
	return h, nil
}

// compareHeld adds the rows: what there is before, early, late and after, and
// what it grew by from early to late, where a little of the runtime's own may
// be among it.
func (b *bench) compareHeld(early, late int, before, first, last, after held) {
	for _, q := range []struct {
		what, unit string
		of         func(held) float64
		growth     float64
	}{
		{"Go heap", "MiB", func(h held) float64 { return h.heap }, 1},
		{"resident memory", "MiB", func(h held) float64 { return h.resident }, 16},
		{"device memory", "MiB", func(h held) float64 { return h.device }, 0},
		{"goroutines", "goroutines", func(h held) float64 { return h.goroutines }, 0},
	} {
		name := fmt.Sprintf("%d epochs of photos: %s", late, q.what)
		add := func(when string, v float64, t target) { b.figure(name, "Pinion, "+when, q.unit, v, t) }
		add("before", q.of(before), target{})
		add(fmt.Sprintf("after epoch %d", early), q.of(first), target{})
		add(fmt.Sprintf("after epoch %d", late), q.of(last), target{})
		add("growth between", max(0, q.of(last)-q.of(first)), atMost(q.growth))
		add("loader closed", q.of(after), target{})
	}
	b.figure(fmt.Sprintf("%d epochs of photos: goroutines", late), "Pinion, left behind", "goroutines",
		max(0, after.goroutines-before.goroutines), atMost(0))
}
