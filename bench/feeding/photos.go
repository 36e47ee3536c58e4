package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
	"github.com/pinion-gpu/pinion/internal/units"
)

// folder is the photos that several groups read.
type folder struct {
	photos *photos.Images // as samples of 224x224x3
	files  [][]byte       // their files
}

// open makes the photos if they are missing, lists them, and reads their files,
// which puts them into the page cache.
func (b *bench) open(ctx context.Context) (*folder, error) {
	if b.folder != nil {
		return b.folder, nil
	}
	dir := b.photosDir
	if dir == "" {
		dir = filepath.Join(b.tmp, "photos")
	}
	if _, err := os.Stat(dir); err != nil {
		fmt.Fprintf(os.Stderr, "painting %s\n", units.Count(b.photos, "photo"))
		if err := samplephotos.Make(ctx, dir, b.photos, nil); err != nil {
			return nil, err
		}
	}
	photos, err := photos.Open(ctx, dir, photos.Options{})
	if err != nil {
		return nil, err
	}
	f := &folder{photos: photos}
	for i := range photos.Len() {
		content, err := os.ReadFile(photos.Name(i))
		if err != nil {
			return nil, err
		}
		f.files = append(f.files, content)
	}
	b.folder = f
	return f, nil
}

// some is a subset of the photos: the first n, or all if there are fewer.
func (f *folder) some(n int) (*dataset.Subset, error) {
	indices := make([]int, min(n, f.photos.Len()))
	for i := range indices {
		indices[i] = i
	}
	return dataset.NewSubset(f.photos, indices)
}

// photosTo names rows of photos that become batches.
func (b *bench) photosTo(d dtype.DType) string {
	return fmt.Sprintf("photos to 224-px %v batches of %d", d, b.batch)
}
