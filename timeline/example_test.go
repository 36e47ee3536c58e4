package timeline_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/timeline"
)

// Record a loader that feeds a device.
func Example() {
	r, err := timeline.Start(timeline.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Stop()
	dev, err := device.Open("host:64MiB")
	if err != nil {
		log.Fatal(err)
	}
	dev = r.Wrap(dev)
	defer dev.Close()

	pixels := make([]byte, 100*32*32*3)
	ds, err := dataset.NewMemory(pixels, dataset.Spec{Shape: []int{32, 32, 3}, DType: dtype.U8}, dataset.MemoryOptions{})
	if err != nil {
		log.Fatal(err)
	}
	l, err := loader.New(dev, ds, loader.Options{Batch: 20})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	for {
		b, err := l.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		if err := b.Release(); err != nil {
			log.Fatal(err)
		}
	}
	r.Stop()

	for _, e := range r.Report().Devices[0].Engines {
		fmt.Println(e.Engine, e.Spans)
	}
	path := filepath.Join(os.TempDir(), "pinion-trace.json")
	defer os.Remove(path)
	if err := r.WriteFile(path); err != nil {
		log.Fatal(err)
	}
	// Output:
	// h2d 5
	// compute 5
}
