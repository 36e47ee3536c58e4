package main

import (
	"context"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
)

// document is what is printed.
type document struct {
	harness.Head
	Rows    []row             `json:"rows"`
	Skipped []harness.Skipped `json:"skipped"`
}

// row is one figure, by who gave the memory.
type row struct {
	harness.Row

	// Slower is how much longer than on preallocated memory it took, in per
	// cent: the median over the repeats, each against the one beside it.
	Slower *float64 `json:"slower_percent,omitempty"`
}

func newDocument(dev device.Device, repeats int) *document {
	return &document{
		Head:    harness.NewHead(dev, "hold", repeats),
		Rows:    []row{},
		Skipped: []harness.Skipped{},
	}
}

// inTurn measures samples and adds their rows.
func (d *document) inTurn(ctx context.Context, samples []*sample) error {
	var list []*harness.Sample
	for _, s := range samples {
		list = append(list, &s.Sample)
	}
	skipped, err := harness.InTurn(ctx, d.Repeats, list)
	d.Skipped = append(d.Skipped, skipped...)
	if err != nil {
		return err
	}
	for _, s := range samples {
		if s.Runs != nil {
			d.Rows = append(d.Rows, row{s.Row, s.slower()})
		}
	}
	return nil
}
