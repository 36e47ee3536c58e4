package main

import (
	"time"

	"github.com/pinion-gpu/pinion/internal/measure"
)

// sample is a row to be measured.
type sample struct {
	measure.Sample
	finish func(*row) // if set, completes the row
}

// Result implements [harness.Measurable].
func (s *sample) Result() row {
	r := row{Row: s.Row}
	if s.finish != nil {
		s.finish(&r)
	}
	return r
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
		return measure.Since(start, time.Second), err
	}
}

// awake runs fn until 2 ms are over, and then counts one more run. Before a
// sample is a pause, after which processors and the device wake slowly: a copy of
// 100 us would take half as long again, and those of the peers follow each other
// without a pause.
func awake(fn func() (float64, error)) func() (float64, error) {
	return func() (float64, error) {
		for start := time.Now(); time.Since(start) < 2*time.Millisecond; {
			if _, err := fn(); err != nil {
				return 0, err
			}
		}
		return fn()
	}
}
