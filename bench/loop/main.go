// Command loop measures what Pinion promises for holding memory: a loop that
// needs tensors for one iteration each, by a buffer that is there before, by
// the driver, by the driver's stream-ordered pool and by package vram; what one
// allocation and its free cost; and the first use of a pool. It prints a
// document in the form of the peers' (see bench/README.md), to be read beside
// peers/torch_loop.py.
//
//	go run ./bench/loop --device cuda:0 > loop.json
//	go run ./bench/loop --device host --quick
//
// Memory is checked before a row is timed: what is written arrives, and blocks
// that are live together do not overlap. The rows of one name are timed in
// turn, one repeat of each after the other; a row is the median of its repeats
// with the least and the most. What a device cannot do is listed as skipped.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
)

func main() {
	var o options
	flag.StringVar(&o.device, "device", "auto", "device to measure")
	flag.StringVar(&o.only, "only", "", "measure only the groups of rows whose names begin so: loops, calls, holes, first")
	flag.BoolVar(&o.quick, "quick", false, "small sizes and one repeat, to see that everything works")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "loop:", err)
		os.Exit(1)
	}
}

// run measures and prints the document.
func run(ctx context.Context, o options, w io.Writer) error {
	return harness.Run(o.device, w, func(dev device.Device) (any, error) { return measure(ctx, dev, o) })
}
