// Command moves measures what Pinion promises for moving bytes: scattered and
// strided blocks, ordinary memory in both directions at once, pipelines, files,
// copies to another device, and the path that an engine chooses for each size;
// and, when asked, queued small copies. It prints a document in the form of the
// peers' (see bench/README.md), to be read beside peers/cuda_moves.cu and
// peers/torch_moves.py.
//
//	go run ./bench/moves --device cuda:0 --copiers 16 --file FILE > moves.json
//	go run ./bench/moves --device cuda:0 --only queued > queued.json
//	go run ./bench/moves --device host --quick
//
// The bytes of every row are checked before it is timed. The rows of one group
// are timed in turn, one repeat of each after the other; a row is the median of
// its repeats with the least and the most. What a device or this machine cannot
// do is listed as skipped.
//
// FILE should be larger than any cache of the disk, of bytes that do not
// compress.
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
	var o options
	o.Flags("scattered, pageable, pipeline, file, peer, chosen path; and only then queued, disk")
	flag.StringVar(&o.file, "file", "", "file to copy from; none leaves the file rows out")
	flag.IntVar(&o.copiers, "copiers", 0, "goroutines that stage ordinary memory (default: the engine's)")
	flag.IntVar(&o.core, "core", -1, "core that queues small copies, Linux only (default: any)")
	flag.BoolVar(&o.rules, "no-model", false, "choose paths by rules of thumb instead of a calibrated model")
	flag.Parse()
	harness.Main("moves", func(ctx context.Context, w io.Writer) error { return run(ctx, o, w) })
}

// run measures and prints the document.
func run(ctx context.Context, o options, w io.Writer) error {
	return harness.Run(o.Device, w, func(dev device.Device) (any, error) { return measureAll(ctx, dev, o) })
}
