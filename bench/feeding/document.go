package main

import (
	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/internal/measure"
)

// document is what is printed.
type document struct {
	harness.Document[row]
	JPEGDecoder string `json:"jpeg_decoder"`
	Workers     int    `json:"workers"` // unless a row says otherwise
}

// row is one figure, and what it has to be.
type row struct {
	measure.Row
	target
}

// target is the least or the most that a figure may be to be good enough.
type target struct {
	AtLeast *float64 `json:"at_least,omitempty"`
	AtMost  *float64 `json:"at_most,omitempty"`
}

func atLeast(v float64) target { return target{AtLeast: &v} }
func atMost(v float64) target  { return target{AtMost: &v} }

// reached reports whether v is good enough.
func (t target) reached(v float64) bool {
	return (t.AtLeast == nil || v >= *t.AtLeast) && (t.AtMost == nil || v <= *t.AtMost)
}

// sample is a row to be measured.
type sample struct {
	measure.Sample
	target
}

// Result implements [harness.Measurable].
func (s *sample) Result() row { return row{s.Row, s.target} }

// share is a row of how much of another's rate a sample reached, in per cent:
// of times as much as one run of the other gave, each in the same turn. There
// is none where one of the two was not measured.
func (d *document) share(name string, s, of *sample, times float64, t target) {
	if len(s.Runs) == 0 || len(of.Runs) != len(s.Runs) {
		return
	}
	var percent []float64
	for i, v := range s.Runs {
		percent = append(percent, 100*v/(times*of.Runs[i]))
	}
	d.Rows = append(d.Rows, row{measure.NewRow(name, s.Row.By, "%", percent), t})
}

// figure is a row of one value.
func (d *document) figure(name, by, unit string, value float64, t target) {
	d.Rows = append(d.Rows, row{measure.NewRow(name, by, unit, []float64{value}), t})
}
