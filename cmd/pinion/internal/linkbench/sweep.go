package linkbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
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
	return rate(p.Bytes, p.Median), rate(p.Bytes, p.Most), rate(p.Bytes, p.Least)
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

// timedPath is a path of one size with what was measured of it.
type timedPath struct {
	path
	rounds int // copies in one sample
	times  []time.Duration
}

// sweep measures every path at every size.
func (b *bench) sweep(ctx context.Context, report *Report) error {
	list := sizes(b.o.Size)
	end := time.Now().Add(b.o.CurveTime)
	at := map[[2]string]int{} // of a path and direction, in report.Curves
	for i, n := range list {
		// Small sizes leave most of their share to the large ones.
		share := time.Until(end) / time.Duration(len(list)-i)
		done, err := b.sweepSize(ctx, n, share, func(what string) { b.step(i, len(list), what) })
		if err != nil {
			return fmt.Errorf("copies of %d bytes: %w", n, err)
		}
		for _, p := range done {
			key := [2]string{p.name, p.direction}
			if _, there := at[key]; !there {
				at[key] = len(report.Curves)
				report.Curves = append(report.Curves, Curve{Path: p.name, Direction: p.direction})
			}
			curve := &report.Curves[at[key]]
			point := Point{Bytes: p.bytes}
			point.Median, point.Least, point.Most = spread(p.times)
			curve.Points = append(curve.Points, point)
		}
	}
	report.Choice = choices(report.Curves)
	return nil
}

// sweepSize checks every path with n bytes, then times them in turn.
func (b *bench) sweepSize(ctx context.Context, n int64, share time.Duration, step func(what string)) ([]*timedPath, error) {
	begin := time.Now()
	paths, err := b.paths(ctx, n)
	if err != nil {
		return nil, err
	}
	var list []*timedPath
	for _, p := range append(paths, b.chosenPaths(ctx, n)...) {
		step(fmt.Sprintf("%d bytes, %s %s", n, p.name, p.direction))
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t := &timedPath{path: p, rounds: 1}
		if err := b.check(p, n); err != nil {
			return nil, fmt.Errorf("%s %s: %w", p.name, p.direction, err)
		}
		if err := t.calibrate(); err != nil {
			return nil, fmt.Errorf("%s %s: %w", p.name, p.direction, err)
		}
		list = append(list, t)
	}
	order := slices.Clone(list)
	random := rand.New(rand.NewPCG(7, 7))
	for repeat := range b.o.Repeats {
		// What one path leaves behind in the caches must not always meet the same.
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if repeat >= leastRepeats && time.Since(begin) > share {
			break
		}
		for _, t := range order {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			d, err := t.warmSample(n)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", t.name, t.direction, err)
			}
			// A coarse clock may see no time pass, but a rate must be a number.
			t.times = append(t.times, max(d/time.Duration(t.rounds), 1))
		}
	}
	return list, nil
}

// calibrate finds how many copies take long enough for the clock and the
// scheduler not to matter.
func (t *timedPath) calibrate() error {
	const most = 1 << 12
	for ; t.rounds < most; t.rounds *= 2 {
		d, err := t.sample()
		if err != nil || d >= sampleTime {
			return err
		}
	}
	return nil
}

// warmSample is a sample behind a copy that is not timed where the bytes may
// fit the processor's cache: what the path before left there would count.
func (t *timedPath) warmSample(n int64) (time.Duration, error) {
	const mayFit = 64 << 20
	if n <= mayFit {
		if err := t.run(); err != nil {
			return 0, err
		}
	}
	return t.sample()
}

// sample is the time of all rounds.
func (t *timedPath) sample() (time.Duration, error) {
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
