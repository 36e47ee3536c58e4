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
	row     row                     // name, by and unit
	check   func() error            // that the memory is sound
	run     func() (float64, error) // one repeat, in the row's unit
	against *sample                 // preallocated memory, if that is of interest
	runs    []float64
}

// settle is how long a driver is given to clear the device memory that the
// sample before freed.
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
			d.Skipped = append(d.Skipped, skipped{s.row.Name, s.row.By, err.Error()})
		case err != nil:
			return fmt.Errorf("%s by %s: %w", s.row.Name, s.row.By, err)
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
			v, err := s.run()
			if err != nil {
				return fmt.Errorf("%s by %s: %w", s.row.Name, s.row.By, err)
			}
			s.runs = append(s.runs, v)
		}
	}
	for _, s := range able {
		s.row.Value, s.row.Min, s.row.Max = median(s.runs), slices.Min(s.runs), slices.Max(s.runs)
		s.row.Slower = s.slower()
		d.Rows = append(d.Rows, s.row)
	}
	return nil
}

// slower compares each repeat with that of the other sample in the same turn.
func (s *sample) slower() *float64 {
	if s.against == nil || len(s.against.runs) != len(s.runs) {
		return nil
	}
	var percent []float64
	for i, v := range s.runs {
		percent = append(percent, 100*(v/s.against.runs[i]-1))
	}
	v := median(percent)
	return &v
}

// impossible: err is about what the device or the machine lacks.
func impossible(err error) bool {
	return errors.Is(err, device.ErrNotSupported) || errors.Is(err, device.ErrOutOfMemory)
}

// since is the time since start in units of unit. A coarse clock may see no
// time pass, but a figure must not be nothing.
func since(start time.Time, unit time.Duration) float64 {
	return float64(max(time.Since(start), 1)) / float64(unit)
}

// median does not change the order of values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
