package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// sample is a row to be measured.
type sample struct {
	row    row                       // name, unit and what else is known
	check  func() error              // moves the bytes once and compares them
	run    func() (float64, error)   // one repeat
	figure func(run float64) float64 // what the row says of a repeat
	finish func(*row)                // if set, completes the row
	runs   []float64
}

// settle is how long a driver is given to clear the device memory that the
// sample before freed: 768 MiB held up the first copy of the next by 0.4 ms.
const settle = 20 * time.Millisecond

// inTurn checks all samples and times them in turn. What the device cannot do
// is skipped.
func (d *document) inTurn(ctx context.Context, samples []*sample) error {
	var able []*sample
	for _, s := range samples {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.check()
		if err == nil {
			_, err = s.run() // warms up
		}
		switch {
		case impossible(err):
			d.skip(s.row.Name, err)
		case err != nil:
			return fmt.Errorf("%s: %w", s.row.Name, err)
		default:
			able = append(able, s)
		}
	}
	for range d.Repeats {
		for _, s := range able {
			if err := ctx.Err(); err != nil {
				return err
			}
			time.Sleep(settle)
			t, err := s.run()
			if err != nil {
				return fmt.Errorf("%s: %w", s.row.Name, err)
			}
			s.runs = append(s.runs, t)
		}
	}
	for _, s := range able {
		var figures []float64
		for _, t := range s.runs {
			figures = append(figures, s.figure(t))
		}
		slices.Sort(figures)
		s.row.Value, s.row.Min, s.row.Max = median(figures), figures[0], figures[len(figures)-1]
		if s.finish != nil {
			s.finish(&s.row)
		}
		d.Rows = append(d.Rows, s.row)
	}
	return nil
}

func (d *document) skip(name string, why error) {
	d.Skipped = append(d.Skipped, skipped{name, why.Error()})
}

// impossible: err is about what the device or the machine lacks.
func impossible(err error) bool {
	for _, lack := range []error{device.ErrNotSupported, device.ErrPinLimit, device.ErrOutOfMemory, errors.ErrUnsupported} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}

// rate makes GB/s of the seconds that n bytes took.
func rate(n int64) func(float64) float64 {
	return func(seconds float64) float64 { return float64(n) / 1e9 / seconds }
}

// timed is the seconds that fn takes.
func timed(fn func() error) func() (float64, error) {
	return func() (float64, error) {
		start := time.Now()
		err := fn()
		// A coarse clock may see no time pass, but a rate must be a number.
		return max(time.Since(start), 1).Seconds(), err
	}
}

// median does not change the order of values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
