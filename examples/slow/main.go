// Command slow makes a dataset that is slow on purpose, and then what it should have
// been: docs/guide/my-gpu-waits.md finds the difference.
//
//	go run ./examples/slow make ~/scans               # 32 photos of 6 megapixels, as PNGs
//	go run ./examples/slow shrink ~/scans ~/scans-256 # as JPEGs whose shorter side has 256 pixels
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
)

func main() {
	err := errors.New("usage: slow make FOLDER, or slow shrink FOLDER OUT")
	switch arg := os.Args[1:]; {
	case len(arg) == 2 && arg[0] == "make":
		err = scan(arg[1], 32, 3000, 2000)
	case len(arg) == 3 && arg[0] == "shrink":
		err = shrink(arg[1], arg[2], 256)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slow:", err)
		os.Exit(1)
	}
}

// scan makes a folder of so many PNGs, in two classes.
func scan(folder string, photos, width, height int) error {
	return each(photos, func(d *imaging.Decoder, i int) error {
		photo, err := samplephotos.Photo(i + 1)
		if err != nil {
			return err
		}
		img, err := scaled(d, photo, width, height)
		if err != nil {
			return err
		}
		var file bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&file, img); err != nil {
			return err
		}
		class := []string{"cats", "dogs"}[i%2]
		return write(filepath.Join(folder, class, fmt.Sprintf("scan-%02d.png", i+1)), file.Bytes())
	})
}

// shrink writes the PNGs of a folder and its sub-folders as JPEGs.
func shrink(folder, out string, side int) error {
	names, err := fs.Glob(os.DirFS(folder), "*/*.png")
	if err != nil {
		return err
	}
	return each(len(names), func(d *imaging.Decoder, i int) error {
		photo, err := os.ReadFile(filepath.Join(folder, names[i]))
		if err != nil {
			return err
		}
		size, err := png.DecodeConfig(bytes.NewReader(photo))
		if err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
		shorter := min(size.Width, size.Height)
		img, err := scaled(d, photo, size.Width*side/shorter, size.Height*side/shorter)
		if err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
		var file bytes.Buffer
		if err := jpeg.Encode(&file, img, &jpeg.Options{Quality: 90}); err != nil {
			return err
		}
		return write(filepath.Join(out, strings.TrimSuffix(names[i], ".png")+".jpg"), file.Bytes())
	})
}

// each calls f with 0 to n-1, on all processors.
func each(n int, f func(*imaging.Decoder, int) error) error {
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		all.Go(func() error {
			d := imaging.NewDecoder(imaging.Options{})
			defer d.Close()
			return f(d, i)
		})
	}
	return all.Wait()
}

// scaled decodes a photo at another size.
func scaled(d *imaging.Decoder, photo []byte, width, height int) (image.Image, error) {
	t := imaging.Stretch(width, height)
	rgb := make([]byte, d.Bytes(t))
	if err := d.DecodeTransformed(context.Background(), rgb, photo, t, 0); err != nil {
		return nil, err
	}
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		copy(img.Pix[4*i:], rgb[3*i:3*i+3])
		img.Pix[4*i+3] = 255
	}
	return img, nil
}

func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
