package csv

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
)

func init() {
	dataset.Register(dataset.Format{
		Name:    "csv",
		Title:   "CSV",
		Files:   ".csv, .tsv, or other text of rows",
		Samples: "the numbers of a row, {columns}",
		Options: []dataset.Option{dataset.LabelOption()},
		Sniff: func(at *dataset.Location) dataset.Confidence {
			if at.Head() == nil {
				return dataset.NoMatch
			}
			ext := strings.ToLower(filepath.Ext(at.Path()))
			// Where nothing else knows a .csv, opening it says what is wrong.
			if begins(at.Head(), at.Whole()) || ext == ".csv" || ext == ".tsv" {
				return dataset.Possible
			}
			return dataset.NoMatch
		},
		Open: func(ctx context.Context, at *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			return Open(ctx, at.Path(), Options{Label: values.Text("label")})
		},
	})
}
