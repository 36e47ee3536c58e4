// Command loop measures what Pinion promises for holding memory: a loop whose
// tensors live for one iteration, with memory from a preallocated buffer, the
// driver, the driver's stream-ordered pool and package vram; the cost of one
// allocation and its free; and the first use of a pool. It prints a document in
// the peers' form (see bench/README.md), to be read beside peers/torch_loop.py.
//
//	go run ./bench/loop --device cuda:0 > loop.json
//	go run ./bench/loop --device host --quick
//
// Memory is checked before a row is timed: what is written arrives, and blocks
// that are live together do not overlap. The rows of one name are timed in
// turn, one repeat of each after the other; a row is the median of its repeats
// with the least and the most. What a device cannot do is listed as not available.
package main

import (
	"context"
	"flag"
	"io"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
)

func main() {
	var o harness.Options
	o.Flags("loops, calls, holes, first")
	flag.Parse()
	harness.Main("loop", func(ctx context.Context, w io.Writer) error { return run(ctx, o, w) })
}

// run measures and prints the document.
func run(ctx context.Context, o harness.Options, w io.Writer) error {
	return harness.Run(o.Device, w, func(dev device.Device) (any, error) { return measureAll(ctx, dev, o) })
}
