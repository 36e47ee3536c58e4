package loader_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
	"github.com/pinion-gpu/pinion/loader"
)

func Example() {
	ctx := context.Background()
	tmp, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	dir := filepath.Join(tmp, "photos")
	if err := samplephotos.Make(ctx, dir, 10, nil); err != nil {
		log.Fatal(err)
	}
	photos, err := dataset.OpenImageFolder(dir, dataset.ImageOptions{Transform: imaging.CenterCrop(64)})
	if err != nil {
		log.Fatal(err)
	}
	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	stream, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}

	ld, err := loader.New(dev, photos, loader.Options{Batch: 4, DType: dtype.F16})
	if err != nil {
		log.Fatal(err)
	}
	defer ld.Close()
	for {
		b, err := ld.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("batch", b.Number, "is", b.Shape, b.DType, "of classes", b.Labels)
		// Queue work on b.Data on stream, then:
		if err := b.Release(stream); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// batch 0 is [4 3 64 64] f16 of classes [0 0 0 1]
	// batch 1 is [4 3 64 64] f16 of classes [1 1 2 2]
	// batch 2 is [2 3 64 64] f16 of classes [3 3]
}
