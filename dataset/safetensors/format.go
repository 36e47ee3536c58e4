package safetensors

import (
	"context"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/safetensors"
)

func init() {
	dataset.Register(dataset.Format{
		Name:    "safetensors",
		Title:   "safetensors",
		Files:   ".safetensors",
		Samples: "one element of the first axis of one of its tensors",
		Options: []dataset.Option{dataset.FieldOption(), dataset.LabelOption()},
		Sniff: func(at *dataset.Location) dataset.Confidence {
			if safetensors.Sniff(at.Head(), at.Size()) {
				return dataset.Certain
			}
			return dataset.NoMatch
		},
		Open: func(ctx context.Context, at *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			return Open(ctx, at.Path(), Options{Tensor: values.Text("field"), Label: values.Text("label")})
		},
	})
}
