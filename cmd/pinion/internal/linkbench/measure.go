package linkbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
)

// sample is something that is timed once in every repeat.
type sample struct {
	what    string
	run     func() (time.Duration, error)
	times   []time.Duration
	skipped error // why it could not be run; the rest goes on without it
}

// measure checks every path, then times all of them in turn.
func (b *bench) measure(ctx context.Context, report *Report) error {
	paths, err := b.paths(ctx, b.o.Size)
	if err != nil {
		return err
	}
	if b.up != nil {
		paths = append(paths, b.bothWays(b.o.Size))
	}
	var samples []*sample
	for i, p := range paths {
		b.step(i, len(paths), "checking "+p.name+" "+p.direction)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := b.check(p, b.o.Size); err != nil {
			return fmt.Errorf("%s %s: %w", p.name, p.direction, err)
		}
		samples = append(samples, &sample{what: p.name + " " + p.direction, run: timed(p.run)})
	}
	bulk := len(samples)
	samples = append(samples, b.small()...)
	small := len(samples)
	samples = append(samples, b.pin()...)

	for repeat := range b.o.Repeats {
		for i, s := range samples {
			b.step(repeat*len(samples)+i, b.o.Repeats*len(samples), s.what)
			if err := ctx.Err(); err != nil {
				return err
			}
			if s.skipped != nil {
				continue
			}
			d, err := s.run()
			if errors.Is(err, device.ErrPinLimit) {
				s.skipped = err
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.what, err)
			}
			s.times = append(s.times, d)
		}
	}

	best := map[string]float64{}
	for i, s := range samples[:bulk] {
		p := paths[i]
		median, least, most := spread(s.times)
		row := Bulk{Path: p.name, Direction: p.direction,
			Median: rate(p.bytes, median), Least: rate(p.bytes, most), Most: rate(p.bytes, least)}
		best[p.direction] = max(best[p.direction], row.Median)
		report.Bulk = append(report.Bulk, row)
	}
	for i := range report.Bulk {
		report.Bulk[i].OfBest = report.Bulk[i].Median / best[report.Bulk[i].Direction]
	}
	for i, s := range samples[bulk:] {
		if s.skipped != nil {
			report.Skipped = append(report.Skipped, Skipped{s.what, s.skipped})
			continue
		}
		median, least, most := spread(s.times)
		row := Timing{s.what, median, least, most}
		if bulk+i < small {
			report.Small = append(report.Small, row)
		} else {
			report.Pin = append(report.Pin, row)
		}
	}
	return nil
}

func rate(n int64, d time.Duration) float64 { return float64(n) / d.Seconds() }

func timed(run func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		start := time.Now()
		err := run()
		return time.Since(start), err
	}
}

func spread(times []time.Duration) (median, least, most time.Duration) {
	sorted := slices.Sorted(slices.Values(times))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]
}

// small lists copies of 4 KiB, each waited for.
func (b *bench) small() []*sample {
	per := func(copy func() error) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			start := time.Now()
			for range smallRounds {
				if err := copy(); err != nil {
					return 0, err
				}
				if err := b.stream.Synchronize(); err != nil {
					return 0, err
				}
			}
			return time.Since(start) / smallRounds, nil
		}
	}
	pageable, back := b.pageable[:smallBytes], b.back[:smallBytes]
	list := []*sample{
		{what: "4 KiB pageable h2d", run: per(func() error { return b.stream.CopyH2D(b.a, pageable) })},
		{what: "4 KiB pageable d2h", run: per(func() error { return b.stream.CopyD2H(back, b.a) })},
	}
	if b.up == nil {
		return list
	}
	up, down := b.up.Bytes()[:smallBytes], b.down.Bytes()[:smallBytes]
	return append(list,
		&sample{what: "4 KiB pinned h2d", run: per(func() error { return b.stream.CopyH2D(b.a, up) })},
		&sample{what: "4 KiB pinned d2h", run: per(func() error { return b.stream.CopyD2H(down, b.a) })})
}

// pin lists the ways to make pinned memory.
func (b *bench) pin() []*sample {
	if b.up == nil {
		return nil
	}
	list := []*sample{{what: "pinned pool", run: b.pinByPool}}
	if host, ok := device.As[device.HostAllocator](b.dev); ok {
		list = append(list, &sample{what: "driver's allocation", run: func() (time.Duration, error) {
			start := time.Now()
			m, err := host.AllocHost(b.o.Size, device.PinMapped)
			if err != nil {
				return 0, err
			}
			return time.Since(start), host.FreeHost(m)
		}})
	}
	return list
}

func (b *bench) pinByPool() (time.Duration, error) {
	start := time.Now()
	pool, err := pinned.NewPool(b.dev, pinned.Options{
		Budget: pagemem.RoundUp(b.o.Size), SegmentBytes: pagemem.RoundUp(b.o.Size), Flags: device.PinMapped,
	})
	if err != nil {
		return 0, err
	}
	buffer, err := pool.Alloc(b.o.Size)
	if err != nil {
		return 0, errors.Join(err, pool.Close())
	}
	took := time.Since(start)
	return took, errors.Join(buffer.Free(), pool.Close())
}
