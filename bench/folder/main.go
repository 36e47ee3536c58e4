// Command folder measures the folder dataset with very many files: the time to
// list them, the time until the first shuffled batch is in device memory (listing
// included), and the memory of the list and of the process. It prints a document
// in the peers' form (see bench/README.md), to be read beside
// peers/list_folder.py.
//
//	go run ./bench/folder --device host > folder.json
//	go run ./bench/folder --dir DIR                    # keeps the files in DIR for other programs
//	go run ./bench/folder --files 2000 --classes 20    # to see that everything works
//
// The files are JPEGs of 32x32 pixels in class folders, named as ImageNet's
// are. The system has their names in memory when they are listed, except in rows
// that begin with "first": there the caches are as cold as the program found
// them.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
)

// options are the flags.
type options struct {
	device  string
	dir     string
	files   int
	classes int
	repeats int
}

func main() {
	var o options
	flag.StringVar(&o.device, "device", "auto", "device to measure")
	flag.StringVar(&o.dir, "dir", "", "folder of the files; it is made and kept if it is not there (default a temporary one)")
	flag.IntVar(&o.files, "files", 1_200_000, "number of files to make")
	flag.IntVar(&o.classes, "classes", 1000, "number of class folders to make")
	flag.IntVar(&o.repeats, "repeats", 5, "repeats of each row")
	flag.Parse()
	harness.Main("folder", func(ctx context.Context, w io.Writer) error { return run(ctx, o, w) })
}

// run makes the files if they are not there, measures and prints the document.
func run(ctx context.Context, o options, w io.Writer) error {
	if o.classes < 1 || o.files < o.classes || o.repeats < 1 {
		return fmt.Errorf("%d files in %d folders, %d repeats: want 1 or more of each, and a file for each folder", o.files, o.classes, o.repeats)
	}
	if o.dir == "" {
		tmp, err := os.MkdirTemp("", "pinion-folder-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		o.dir = filepath.Join(tmp, "photos")
	}
	if _, err := os.Stat(o.dir); err != nil {
		if err := makeTree(ctx, o.dir, o.files, o.classes); err != nil {
			return err
		}
	}
	return harness.Run(o.device, w, func(dev device.Device) (any, error) { return measureAll(ctx, dev, o) })
}
