package main

import (
	"context"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
)

// sizes are how much of everything there is.
type sizes struct {
	iterations int           // of a loop
	tensor     int64         // bytes, of a loop of one tensor
	tensors    int           // of an iteration with small ones
	smallest   int64         // of the small ones
	largest    int64         // of the small ones
	blocks     []int64       // bytes of a block whose calls are timed
	callTime   time.Duration // of one repeat of calls, about
	gaps       int           // between small blocks
	firstBytes int64         // of the first block of a pool
}

var (
	fullSizes = sizes{iterations: 100, tensor: 400e6, tensors: 50, smallest: 1 << 10, largest: 4 << 20,
		blocks: []int64{4 << 10, 1 << 20, 64 << 20}, callTime: 20 * time.Millisecond, gaps: 65536, firstBytes: 1 << 30}
	quickSizes = sizes{iterations: 6, tensor: 400e3, tensors: 5, smallest: 1 << 10, largest: 64 << 10,
		blocks: []int64{4 << 10, 64 << 10}, callTime: time.Millisecond, gaps: 512, firstBytes: 4 << 20}
)

// bench is a run.
type bench struct {
	sizes
	document
	dev device.Device
}

// measureAll measures dev, one group of rows after the other.
func measureAll(ctx context.Context, dev device.Device, o harness.Options) (*document, error) {
	b := &bench{sizes: fullSizes, document: harness.NewDocument[row](dev, "hold", 7), dev: dev}
	if o.Quick {
		b.sizes, b.Repeats = quickSizes, 1
	}
	err := b.Measure(ctx, dev, o.Only, []harness.Group{
		{Name: "loops", Measure: b.loops},
		{Name: "calls", Measure: b.calls},
		{Name: "holes", Measure: b.holes},
		{Name: "first", Measure: b.first},
	})
	return &b.document, err
}

// inTurn measures samples and adds their rows.
func (b *bench) inTurn(ctx context.Context, samples []*sample) error {
	return harness.Add(ctx, &b.document, samples)
}
