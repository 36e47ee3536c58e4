package loader_test

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
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
	pictures, err := photos.Open(context.Background(), dir, photos.Options{Transform: imaging.CenterCrop(64)})
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

	ld, err := loader.New(dev, pictures, loader.Options{Batch: 4, DType: dtype.F16})
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

// Photos for segmentation: each with its mask, which is cropped and mirrored as
// the photo is.
func ExampleOptions_targets() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := paintMasked(dir, 4); err != nil {
		log.Fatal(err)
	}

	augment := imaging.RandomResizedCrop(32).WithFlip(0.5).WithJitter(imaging.Jitter{Brightness: 0.4})
	pictures, err := photos.Open(ctx, filepath.Join(dir, "photos"), photos.Options{Transform: augment})
	if err != nil {
		log.Fatal(err)
	}
	files, err := photos.OpenFolder(ctx, filepath.Join(dir, "masks"))
	if err != nil {
		log.Fatal(err)
	}
	matched, err := dataset.Match(pictures.Files, files, nil) // by name, whatever else is there
	if err != nil {
		log.Fatal(err)
	}
	masks, err := photos.New(matched, photos.Options{Transform: augment, Decode: imaging.Options{Indexes: true}})
	if err != nil {
		log.Fatal(err)
	}

	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	ld, err := loader.New(dev, pictures, loader.Options{Batch: 4, DType: dtype.F16, Targets: []dataset.Dataset{masks}})
	if err != nil {
		log.Fatal(err)
	}
	defer ld.Close()
	for b, err := range ld.All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		mask := b.Targets[0] // mask.Data is device memory, as b.Data is
		fmt.Println("photos", b.Shape, b.DType, "with masks", mask.Shape, mask.DType)
		if err := b.Release(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// photos [4 3 32 32] f16 with masks [4 32 32 1] u8
}

// paintMasked paints n photos, and masks whose colours stand for two classes.
func paintMasked(dir string, n int) error {
	for _, kind := range []string{"photos", "masks"} {
		if err := os.Mkdir(filepath.Join(dir, kind), 0o755); err != nil {
			return err
		}
		for i := range n {
			m := image.NewPaletted(image.Rect(0, 0, 80, 60), color.Palette{color.Black, color.RGBA{128, 0, 0, 255}})
			for x := range 30 {
				m.SetColorIndex(x, 20+i, 1)
			}
			f, err := os.Create(filepath.Join(dir, kind, fmt.Sprint(i, ".png")))
			if err != nil {
				return err
			}
			if err := errors.Join(png.Encode(f, m), f.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}
