package main

import (
	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/internal/measure"
)

// document is what is printed.
type document = harness.Document[row]

// row is one figure, by who gave the memory.
type row struct {
	measure.Row

	// Slower is how much longer than on preallocated memory it took: the median
	// over the repeats, each against the one beside it. 0.02 is 2 % longer.
	Slower *float64 `json:"slower_fraction,omitempty"`
}
