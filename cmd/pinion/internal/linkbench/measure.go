package linkbench

import (
	"context"
	"errors"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/stats"
)

// measure checks every path, then times all of them in turn.
func (b *bench) measure(ctx context.Context, report *Report) error {
	paths, err := b.paths(ctx, b.o.Size)
	if err != nil {
		return err
	}
	if b.pinned != nil {
		paths = append(paths, b.bothWays())
	}
	var samples []*measure.Sample
	for _, p := range paths {
		samples = append(samples, &measure.Sample{
			Row:   measure.Row{Name: p.name + " " + p.direction},
			Check: func() error { return b.check(ctx, p) },
			Run:   timed(p.run),
		})
	}
	small, pin := b.small(), b.pin()
	samples = append(samples, small...)
	samples = append(samples, pin...)
	steps := len(samples) * (1 + b.o.Repeats)
	b.steps = b.step + steps + b.sweepSteps(len(paths))
	skipped, err := measure.Plan{Repeats: b.o.Repeats, Impossible: impossible, Progress: b.progress(steps)}.Run(ctx, samples)
	if err != nil {
		return err
	}
	for _, s := range skipped {
		report.skip(s.Err, s.Name)
	}
	for i, p := range paths {
		if times := samples[i].Runs; times != nil {
			median, least, most := stats.Spread(times)
			report.Bulk = append(report.Bulk, Bulk{Path: p.name, Direction: p.direction,
				Median: rate(p.bytes, median), Least: rate(p.bytes, most), Most: rate(p.bytes, least)})
		}
	}
	best := map[string]float64{}
	for _, row := range report.Bulk {
		best[row.Direction] = max(best[row.Direction], row.Median)
	}
	for i := range report.Bulk {
		report.Bulk[i].OfBest = report.Bulk[i].Median / best[report.Bulk[i].Direction]
	}
	report.Small, report.Pin = timings(small), timings(pin)
	return nil
}

func timings(samples []*measure.Sample) (list []Timing) {
	for _, s := range samples {
		if s.Runs != nil {
			median, least, most := stats.Spread(s.Runs)
			list = append(list, Timing{s.Row.Name, time.Duration(median), time.Duration(least), time.Duration(most)})
		}
	}
	return list
}

// rate is in bytes a second, of a time in nanoseconds.
func rate(n int64, nanoseconds float64) float64 { return float64(n) / nanoseconds * 1e9 }

// timed gives the nanoseconds that run takes.
func timed(run func() error) func() (float64, error) {
	return func() (float64, error) {
		start := time.Now()
		err := run()
		return measure.Since(start, time.Nanosecond), err
	}
}

// small lists copies of 4 KiB, each waited for.
func (b *bench) small() []*measure.Sample {
	sample := func(name string, copy func() error) *measure.Sample {
		return &measure.Sample{Row: measure.Row{Name: "4 KiB " + name}, Run: func() (float64, error) {
			start := time.Now()
			for range smallRounds {
				if err := copy(); err != nil {
					return 0, err
				}
				if err := b.stream.Synchronize(); err != nil {
					return 0, err
				}
			}
			return measure.Since(start, time.Nanosecond) / smallRounds, nil
		}}
	}
	pair := func(name string, memory []byte) []*measure.Sample {
		from, to := regions(memory, smallBytes)
		return []*measure.Sample{
			sample(name+" h2d", func() error { return b.stream.CopyH2D(b.mem, from[:smallBytes]) }),
			sample(name+" d2h", func() error { return b.stream.CopyD2H(to[:smallBytes], b.mem) }),
		}
	}
	list := pair("pageable", b.pageable)
	if b.pinned != nil {
		list = append(list, pair("pinned", b.pinned.Bytes())...)
	}
	return list
}

// pin lists the ways to make pinned memory.
func (b *bench) pin() []*measure.Sample {
	if b.pinned == nil {
		return nil
	}
	n := min(b.o.Size, mostPinned)
	list := []*measure.Sample{{Row: measure.Row{Name: "pinned pool"}, Run: func() (float64, error) { return b.pinByPool(n) }}}
	if host, ok := device.As[device.HostAllocator](b.dev); ok {
		list = append(list, &measure.Sample{Row: measure.Row{Name: "driver's allocation"}, Run: func() (float64, error) {
			start := time.Now()
			m, err := host.AllocHost(n, device.PinMapped)
			if err != nil {
				return 0, err
			}
			return measure.Since(start, time.Nanosecond), host.FreeHost(m)
		}})
	}
	return list
}

func (b *bench) pinByPool(n int64) (float64, error) {
	start := time.Now()
	pool, err := b.newPool(n)
	if err != nil {
		return 0, err
	}
	buffer, err := pool.Alloc(context.Background(), n)
	if err != nil {
		return 0, errors.Join(err, pool.Close())
	}
	took := measure.Since(start, time.Nanosecond)
	return took, errors.Join(buffer.Free(), pool.Close())
}
