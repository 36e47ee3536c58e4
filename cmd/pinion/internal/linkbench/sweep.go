package linkbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Curve is one path in one direction over the sizes of copies.
type Curve struct {
	Path      string // as in Bulk, or "chosen": pageable memory by an engine with default options
	Direction string
	Points    []Point // by growing size
}

// Point is the time of one copy, waited for.
type Point struct {
	Bytes               int64
	Median, Least, Most time.Duration
}

// Rates gives the point in bytes a second: the median, and the least and the
// most of its repeats.
func (p Point) Rates() (median, least, most float64) {
	return rate(p.Bytes, float64(p.Median)), rate(p.Bytes, float64(p.Most)), rate(p.Bytes, float64(p.Least))
}

// Choice is what an engine with default options made of pageable memory,
// beside the better one of the paths that it could have taken.
type Choice struct {
	Bytes        int64
	Direction    string
	Chosen, Best time.Duration // medians
	BestPath     string        // "pageable" or "staged"
	Ratio        float64       // Chosen over Best; 1.05 is 5 % slower
}

const (
	smallestCopy = 1 << 10
	sampleTime   = 200 * time.Microsecond // short copies are timed many at once
	leastRepeats = 3
)

// sizes are the powers of 4 from 1 KiB, and size itself rounded down to whole
// blocks.
func sizes(size int64) (list []int64) {
	size -= size % blockBytes
	for n := int64(smallestCopy); n < size; n *= 4 {
		list = append(list, n)
	}
	return append(list, size)
}

// perSize is the number of paths at each size.
func (b *bench) perSize(paths int) int {
	if b.pinned != nil {
		paths-- // both directions at once have no curve
	}
	if b.chooser != nil {
		paths += 2
	}
	return paths
}

// sweepSteps is the number of steps of a sweep, for the progress.
func (b *bench) sweepSteps(paths int) int {
	if !b.o.Curves {
		return 0
	}
	return len(sizes(b.o.Size)) * b.perSize(paths) * (1 + b.o.Repeats)
}

// sweep measures every path at every size, where that is asked for.
func (b *bench) sweep(ctx context.Context, report *Report) error {
	if !b.o.Curves {
		return nil
	}
	list := sizes(b.o.Size)
	end := time.Now().Add(b.o.CurveTime)
	at := map[[2]string]int{} // of a path and direction, in report.Curves
	for i, n := range list {
		// Small sizes leave most of their share to the large ones.
		share := time.Until(end) / time.Duration(len(list)-i)
		done, err := b.sweepSize(ctx, n, time.Now().Add(share))
		if err != nil {
			return fmt.Errorf("copies of %s: %w", units.Bytes(n), err)
		}
		for _, p := range done {
			key := [2]string{p.name, p.direction}
			if _, there := at[key]; !there {
				at[key] = len(report.Curves)
				report.Curves = append(report.Curves, Curve{Path: p.name, Direction: p.direction})
			}
			curve := &report.Curves[at[key]]
			median, least, most := stats.Spread(p.sample.Runs)
			curve.Points = append(curve.Points, Point{p.bytes, time.Duration(median), time.Duration(least), time.Duration(most)})
		}
	}
	report.Choice = choices(report.Curves)
	return nil
}

// timedPath is a path of one size.
type timedPath struct {
	path
	rounds int // copies in one repeat
	sample measure.Sample
}

// sweepSize checks every path with n bytes, then times them in turn.
func (b *bench) sweepSize(ctx context.Context, n int64, until time.Time) (list []*timedPath, err error) {
	paths, err := b.paths(ctx, n)
	if err != nil {
		return nil, err
	}
	if b.chooser != nil {
		paths = append(paths, b.staged(ctx, "chosen", b.chooser, n)...)
	}
	var samples []*measure.Sample
	for _, p := range paths {
		t := &timedPath{path: p, rounds: 1}
		t.sample = measure.Sample{
			Row: measure.Row{Name: units.Bytes(n) + ", " + p.name + " " + p.direction},
			Check: func() error {
				if err := b.check(ctx, p); err != nil {
					return err
				}
				return t.calibrate()
			},
			Run: t.warmRun,
		}
		list, samples = append(list, t), append(samples, &t.sample)
	}
	plan := measure.Plan{
		Repeats: b.o.Repeats, Enough: min(leastRepeats, b.o.Repeats), Until: until,
		// What one path leaves behind in the caches must not always meet the same.
		Shuffle:    rand.New(rand.NewPCG(7, 7)),
		Impossible: func(error) bool { return false }, // larger copies took all of these paths
		Progress:   b.progress(len(samples) * (1 + b.o.Repeats)),
	}
	_, err = plan.Run(ctx, samples)
	return list, err
}

// calibrate finds how many copies take long enough for the clock and the
// scheduler not to matter.
func (t *timedPath) calibrate() error {
	const most = 1 << 12
	for ; t.rounds < most; t.rounds *= 2 {
		d, err := t.time()
		if err != nil || d >= sampleTime {
			return err
		}
	}
	return nil
}

// warmRun gives the nanoseconds of one copy, after one that is not timed where
// the bytes may fit the processor's cache: what the path before left there would
// count.
func (t *timedPath) warmRun() (float64, error) {
	const mayFit = 64 << 20
	if t.bytes <= mayFit {
		if err := t.run(); err != nil {
			return 0, err
		}
	}
	d, err := t.time()
	// A coarse clock may see no time pass, but a rate must be a number.
	return float64(max(d/time.Duration(t.rounds), 1)), err
}

// time is that of all rounds.
func (t *timedPath) time() (time.Duration, error) {
	start := time.Now()
	for range t.rounds {
		if err := t.run(); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// choices compares the curves of pageable memory, which have the same sizes.
func choices(curves []Curve) (list []Choice) {
	points := map[[2]string][]Point{}
	for _, c := range curves {
		points[[2]string{c.Path, c.Direction}] = c.Points
	}
	for _, direction := range []string{"h2d", "d2h"} {
		plain, staged := points[[2]string{"pageable", direction}], points[[2]string{"staged", direction}]
		for i, p := range points[[2]string{"chosen", direction}] {
			c := Choice{Bytes: p.Bytes, Direction: direction, Chosen: p.Median, Best: plain[i].Median, BestPath: "pageable"}
			if staged != nil && staged[i].Median < c.Best {
				c.Best, c.BestPath = staged[i].Median, "staged"
			}
			c.Ratio = 1
			if c.Best > 0 {
				c.Ratio = float64(c.Chosen) / float64(c.Best)
			}
			list = append(list, c)
		}
	}
	return list
}
