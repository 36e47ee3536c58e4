package main

import (
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/provenance"
)

// document is what is printed: the form of a peer's file, with more keys.
type document struct {
	Peer    string `json:"peer"`
	What    string `json:"what"`
	Machine string `json:"machine"`
	provenance.Record
	Repeats    int       `json:"repeats"`
	Copiers    int       `json:"copiers,omitempty"` // that were asked for
	Calibrated bool      `json:"calibrated"`        // paths were chosen by a model of this link
	Rows       []row     `json:"rows"`
	Choice     []choice  `json:"choice"`
	Skipped    []skipped `json:"skipped"`
}

// row is one figure: the median of its repeats.
type row struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`

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

// skipped is a row that this device or machine cannot have.
type skipped struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

func newDocument(dev device.Device) *document {
	return &document{
		Peer:    "Pinion",
		What:    "moves",
		Machine: dev.Info().Name,
		Record:  provenance.Now(),
		Rows:    []row{},
		Choice:  []choice{},
		Skipped: []skipped{},
	}
}
