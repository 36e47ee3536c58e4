package main

import (
	"context"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/measure"
)

// document is what is printed.
type document struct {
	harness.Document[row]
	Copiers    int      `json:"copiers,omitempty"` // that were asked for
	Calibrated bool     `json:"calibrated"`        // paths were chosen by a model of this link
	Choice     []choice `json:"choice"`
}

// row is one figure, and how it came about.
type row struct {
	measure.Row
	Path         string   `json:"path,omitempty"`  // that the bytes took
	Notes        []string `json:"notes,omitempty"` // why it was not a faster one
	ChunkBytes   int64    `json:"chunk_bytes,omitempty"`
	GBPerS       float64  `json:"gb_per_s,omitempty"`      // of a row in per cent
	SetupSeconds float64  `json:"setup_seconds,omitempty"` // before the first copy, not in Value
}

// choice is the path that the engine chose for ordinary memory of one size,
// beside the fastest of those that it was forced to take.
type choice struct {
	Bytes     int64   `json:"bytes"`
	Direction string  `json:"direction"`
	Chosen    float64 `json:"chosen_seconds"`
	BestTime  float64 `json:"best_seconds"`
	Best      string  `json:"best"`
}

func newDocument(dev device.Device, repeats int) *document {
	return &document{Document: harness.NewDocument[row](dev, "moves", repeats), Choice: []choice{}}
}

// inTurn measures samples and adds their rows.
func (d *document) inTurn(ctx context.Context, samples []*sample) error {
	return harness.Add(ctx, &d.Document, samples)
}
