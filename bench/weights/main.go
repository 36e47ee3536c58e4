// Command weights measures how fast a checkpoint comes into device memory. It
// prints a document in the form of the peers' (see bench/README.md), to be read
// beside peers/torch_weights.py.
//
//	go run ./bench/weights --generate MODEL              # a model of 8 GiB
//	go run ./bench/weights --device cuda:0 --model MODEL > weights.json
//	go run ./bench/weights --device host --quick
//
// Every byte is checked before a row is timed. The rows of one group are timed in
// turn, one repeat of each after the other; a row is the median of its repeats
// with the least and the most. The time begins before the header is read and
// ends when all tensors are in device memory; freeing is not in it.
package main

import (
	"context"
	"flag"
	"io"
	"runtime"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
)

type options struct {
	harness.Options
	model    string
	generate string
	bytes    int64
	copiers  int
}

func main() {
	var o options
	o.Flags("cached; and only then disk, cold")
	flag.StringVar(&o.model, "model", "", "checkpoint to load, on the disk to be measured")
	flag.StringVar(&o.generate, "generate", "", "write a checkpoint of random bytes to this new folder, and measure nothing")
	flag.Int64Var(&o.bytes, "bytes", 8<<30, "size of the checkpoint to generate")
	flag.IntVar(&o.copiers, "copiers", min(runtime.GOMAXPROCS(0), 16), "goroutines that copy from the page cache")
	flag.Parse()
	harness.Main("weights", func(ctx context.Context, w io.Writer) error { return run(ctx, o, w) })
}

// run measures and prints the document, or makes the model.
func run(ctx context.Context, o options, w io.Writer) error {
	if o.generate != "" {
		return generate(ctx, o.generate, o.bytes)
	}
	return harness.Run(o.Device, w, func(dev device.Device) (any, error) { return measureAll(ctx, dev, o) })
}
