package photos_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
)

func Example() {
	tmp, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(tmp)
	dir := filepath.Join(tmp, "photos")
	if err := samplephotos.Make(context.Background(), dir, 6, nil); err != nil {
		panic(err)
	}

	ds, err := photos.Open(context.Background(), dir, photos.Options{Transform: imaging.CenterCrop(64)})
	if err != nil {
		panic(err)
	}
	fmt.Println(ds.Len(), "samples of", ds.Spec(), ds.Classes())

	r, err := ds.NewReader()
	if err != nil {
		panic(err)
	}
	defer r.Close()
	sample := make([]byte, ds.Spec().Bytes())
	for i := range ds.Len() {
		if err := r.Read(context.Background(), dataset.Visit{Index: i}, sample); err != nil {
			panic(err)
		}
		fmt.Println(filepath.Base(ds.Name(i)), ds.Label(i))
	}
	// Output:
	// 6 samples of 64x64x3 u8 [beach city forest mountain]
	// photo-00001.jpg 0
	// photo-00005.jpg 0
	// photo-00002.jpg 1
	// photo-00006.jpg 1
	// photo-00003.jpg 2
	// photo-00004.jpg 3
}
