// Command feeding measures what Pinion promises for feeding a device: photos
// and arrays that become batches in device memory, beside what the machine can
// do at all, measured in the same turn. It prints a document in the form of the
// peers' (see bench/README.md), to be read beside peers/torch_loader.py,
// torch_arrays.py and torch_decode.py.
//
//	go run ./bench/feeding --device cuda:0 --json > feeding.json
//	go run ./bench/feeding --device cuda:0 --only cpu,scaling --photos DIR
//	go run ./bench/feeding --device host --quick
//
// Groups of rows: cpu (photos decoded by the workers), scaling (by their
// number), core (one goroutine), memory (a small array), mapped (a large file
// of images), next-epoch, flat (memory over many epochs), gpu (photos decoded on
// the device), devices (one loader for all of them, where there are several).
//
// Batches are compared with what the dataset holds before a row is timed. Rates
// are those of a pipeline that is full when the clock starts and when it stops.
// The rows of a group are timed in turn, one repeat of each after the other; a
// row is the median of its repeats with the least and the most. A row in per
// cent of another compares the two repeat by repeat. What a device or this
// machine cannot do is listed as skipped.
package main

import (
	"context"
	"flag"
	"io"
	"os"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
)

// options are the flags.
type options struct {
	harness.Options
	photosDir  string
	imagesFile string
	copiers    int
	json       bool
}

func main() {
	var o options
	o.Flags("cpu, scaling, core, memory, mapped, next-epoch, flat, gpu, devices")
	flag.StringVar(&o.photosDir, "photos", "", "folder of photos; made and kept if it is not there (default a temporary one)")
	flag.StringVar(&o.imagesFile, "images", "", "file of 256x256x3 bytes an image; made and kept if it is not there (default a temporary one)")
	flag.IntVar(&o.copiers, "copiers", 0, "goroutines of the staged copy that images are compared with (default: the engine's)")
	flag.BoolVar(&o.json, "json", false, "print the document to standard output, and the table to standard error")
	flag.Parse()
	harness.Main("feeding", func(ctx context.Context, w io.Writer) error {
		if o.json {
			return run(ctx, o, w, os.Stderr)
		}
		return run(ctx, o, io.Discard, w)
	})
}

// run measures and prints the document, and then a short table.
func run(ctx context.Context, o options, document, table io.Writer) error {
	var b *bench
	err := harness.Run(o.Device, document, func(dev device.Device) (_ any, err error) {
		b, err = measureAll(ctx, dev, o)
		return b.document, err
	})
	if err != nil {
		return err
	}
	return writeTable(table, b.document)
}
