package parquet

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
)

// extension is the end of the names of the files of a folder.
const extension = ".parquet"

func init() {
	dataset.Register(dataset.Format{
		Name:    "parquet",
		Title:   "Parquet",
		Files:   ".parquet, a folder of them, or a pattern such as train-*.parquet",
		Samples: "the numbers of a row, {columns}, its list, {length}, or the picture in a column of bytes",
		Folder:  []string{extension},
		Options: append(photos.FormatOptions(), dataset.FieldOption(), dataset.LabelOption(),
			dataset.Option{Name: "fill", Kind: dataset.Float, Usage: "`NUMBER` that stands for nulls (default: a sample with a null cannot be read)"}),
		Sniff: sniff,
		Open: func(ctx context.Context, at *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			pictures, err := photos.OptionsOf(values)
			if err != nil {
				return nil, err
			}
			t, err := openTable(ctx, at.Path(), 0)
			if err != nil {
				return nil, err
			}
			field, label := values.Text("field"), values.Text("label")
			files, err := t.files(ctx, FileOptions{Column: field, Label: label})
			if err == nil && values.Given("fill") {
				return nil, values.Bad("fill", errors.New("the samples are pictures, which have no nulls"))
			}
			if err == nil {
				return photos.New(files, pictures)
			}
			if !errors.Is(err, dataset.ErrFormat) && !strings.Contains(field, ",") {
				return nil, err
			}
			// There are no bytes, so there may be numbers.
			opts := Options{Label: label}
			if fill := values.Float("fill"); values.Given("fill") {
				opts.Fill = &fill
			}
			if field != "" {
				opts.Columns = strings.Split(field, ",")
			}
			return t.dataset(ctx, opts)
		},
	})
}

func sniff(at *dataset.Location) dataset.Confidence {
	switch {
	case bytes.HasPrefix(at.Head(), []byte("PAR1")):
		return dataset.Certain
	case at.Count(extension) > 0, !at.Exists() && strings.ContainsAny(at.Path(), "*?[") && strings.HasSuffix(at.Path(), extension):
		return dataset.Likely
	}
	return dataset.NoMatch
}
