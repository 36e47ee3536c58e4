package jsonl

import (
	"context"

	"github.com/pinion-gpu/pinion/dataset"
)

func init() {
	dataset.Register(dataset.Format{
		Name:    "jsonl",
		Title:   "JSON lines",
		Files:   "text with a JSON object or array in each line",
		Samples: "the numbers of a line, or of one field of it; ragged, where lines differ in length",
		Options: []dataset.Option{dataset.FieldOption(), dataset.LabelOption()},
		Sniff: func(at *dataset.Location) dataset.Confidence {
			if begins(at.Head(), at.Whole()) {
				return dataset.Likely
			}
			return dataset.NoMatch
		},
		Open: func(ctx context.Context, at *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			return Open(ctx, at.Path(), Options{Field: values.Text("field"), Label: values.Text("label"), Ragged: true})
		},
	})
}
