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
	Repeats int       `json:"repeats"`
	Rows    []row     `json:"rows"`
	Skipped []skipped `json:"skipped"`
}

// row is one figure: the median of its repeats.
type row struct {
	Name  string  `json:"name"`
	By    string  `json:"by"` // who gave the memory
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`

	// Slower is how much longer than on preallocated memory it took, in per
	// cent: the median over the repeats, each against the one beside it.
	Slower *float64 `json:"slower_percent,omitempty"`
}

// skipped is a row that this device or machine cannot have.
type skipped struct {
	Name string `json:"name"`
	By   string `json:"by"`
	Why  string `json:"why"`
}

func newDocument(dev device.Device) *document {
	return &document{
		Peer:    "Pinion",
		What:    "hold",
		Machine: dev.Info().Name,
		Record:  provenance.Now(),
		Rows:    []row{},
		Skipped: []skipped{},
	}
}
