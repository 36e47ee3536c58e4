package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/internal/atomicfile"
)

// thumbnails is how many different pictures there are.
const thumbnails = 64

// makeTree makes dir a folder of that many small photos in class folders,
// named as ImageNet's are. A run that is cut short leaves no dir.
func makeTree(ctx context.Context, dir string, files, classes int) error {
	part, err := atomicfile.CreateFolder(dir)
	if err != nil {
		return err
	}
	defer part.Discard()
	pictures, err := makeThumbnails()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for class := range classes {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return makeClass(part.Path(), pictures, class, files*class/classes, files*(class+1)/classes)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return part.Commit()
}

// makeClass makes one class folder with the files from first to before end.
func makeClass(dir string, pictures [][]byte, class, first, end int) error {
	name := fmt.Sprintf("n%08d", 1440764+class)
	dir = filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := first; i < end; i++ {
		path := filepath.Join(dir, fmt.Sprintf("%s_%d.JPEG", name, i))
		if err := os.WriteFile(path, pictures[i%thumbnails], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// makeThumbnails encodes pictures of 32x32 pixels.
func makeThumbnails() ([][]byte, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	pictures := make([][]byte, thumbnails)
	for k := range pictures {
		m := image.NewRGBA(image.Rect(0, 0, 32, 32))
		for i := range m.Pix {
			m.Pix[i] = byte(i/64*4+k) + byte(rng.IntN(16))
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, m, nil); err != nil {
			return nil, err
		}
		pictures[k] = b.Bytes()
	}
	return pictures, nil
}
