package main

import (
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/stats"
)

// sample is a row to be measured, in the unit that its runs return.
type sample struct {
	measure.Sample
	against *sample // preallocated memory, if that is of interest
}

// Result implements [harness.Measurable].
func (s *sample) Result() row { return row{s.Row, s.slower()} }

// slower compares each repeat with that of the other sample in the same turn.
func (s *sample) slower() *float64 {
	if s.against == nil || len(s.against.Runs) != len(s.Runs) {
		return nil
	}
	var fractions []float64
	for i, v := range s.Runs {
		fractions = append(fractions, v/s.against.Runs[i]-1)
	}
	v := stats.Median(fractions)
	return &v
}
