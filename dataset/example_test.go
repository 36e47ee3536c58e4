package dataset_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset"
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

	photos, err := dataset.OpenImageFolder(context.Background(), dir, dataset.ImageOptions{Transform: imaging.CenterCrop(64)})
	if err != nil {
		panic(err)
	}
	fmt.Println(photos.Len(), "samples of", photos.Spec(), photos.Classes())

	r, err := photos.NewReader()
	if err != nil {
		panic(err)
	}
	defer r.Close()
	sample := make([]byte, photos.Spec().Bytes())
	for i := range photos.Len() {
		if err := r.Read(context.Background(), dataset.Visit{Index: i}, sample); err != nil {
			panic(err)
		}
		fmt.Println(filepath.Base(photos.Name(i)), photos.Label(i))
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
