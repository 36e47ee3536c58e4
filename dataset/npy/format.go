package npy

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/pinion-gpu/pinion/dataset"
)

func init() {
	dataset.Register(dataset.Format{
		Name:    "npy",
		Title:   "NumPy .npy",
		Files:   ".npy",
		Samples: "one element of the first axis",
		Options: []dataset.Option{dataset.LabelOption()},
		Sniff:   begins(magic),
		Open: func(ctx context.Context, at *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			label := values.Text("label")
			if values.Given("label") {
				if _, err := os.Stat(label); err != nil {
					return nil, values.Bad("label", fmt.Errorf("the labels of a .npy file are another file: %w", err))
				}
			}
			return Open(ctx, at.Path(), Options{Label: label})
		},
	})
	dataset.Register(dataset.Format{
		Name:    "npz",
		Title:   "NumPy .npz",
		Files:   ".npz, compressed or not",
		Samples: "one element of the first axis of one of its arrays",
		Options: []dataset.Option{dataset.FieldOption(), dataset.LabelOption()},
		Sniff:   begins(zipMagic, zipMagicEmpty),
		Open: func(ctx context.Context, at *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			return OpenNPZ(ctx, at.Path(), NPZOptions{Array: values.Text("field"), Label: values.Text("label")})
		},
	})
}

// begins makes a function that finds a file that begins with one of those.
func begins(magic ...string) func(*dataset.Location) dataset.Confidence {
	return func(at *dataset.Location) dataset.Confidence {
		for _, m := range magic {
			if bytes.HasPrefix(at.Head(), []byte(m)) {
				return dataset.Certain
			}
		}
		return dataset.NoMatch
	}
}
