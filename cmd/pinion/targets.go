package main

import (
	"bytes"
	"context"
	"fmt"
	"image/color"
	"image/png"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/shard"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
)

// target is a dataset that goes with another one.
type target struct {
	ds   dataset.Dataset
	path string
}

// targets are those of the loader.
func (in *input) targets() (list []dataset.Dataset) {
	for _, t := range in.with {
		list = append(list, t.ds)
	}
	return list
}

// targetRow is a target in a report.
type targetRow struct {
	Dataset string `json:"dataset"`
	Sample  string `json:"sample"` // shape and type
}

func (t targetRow) String() string { return fmt.Sprintf("with each %s of %s", t.Sample, t.Dataset) }

// targetRows are those of the report.
func (in *input) targetRows() (rows []targetRow) {
	for _, t := range in.with {
		rows = append(rows, targetRow{t.path, t.ds.Spec().String()})
	}
	return rows
}

// openTarget opens what goes with the samples of ds. Pictures are masks; where
// both are folders, they are found by the names of the photos.
func (f *datasetFlags) openTarget(ctx context.Context, path string, ds dataset.Dataset, line *progress) (dataset.Dataset, error) {
	masks := dataset.ImageOptions{Transform: f.parsed, Decode: imaging.Options{Indexes: true}}
	opened, err := dataset.Open(ctx, path, dataset.Options{
		Image: masks,
		JSON:  dataset.JSONOptions{Ragged: true},
		Tar:   dataset.TarOptions{Shards: shard.Options{OnRetry: line.retry}},
	})
	if err != nil {
		return nil, err
	}
	folder := folderOf(opened)
	if folder == nil {
		return opened, nil
	}
	var files dataset.Files = folder
	if photos := folderOf(ds); photos != nil {
		if files, err = dataset.Match(photos, folder, nil); err != nil {
			return nil, err
		}
	}
	if deep(ctx, files) {
		masks.Decode.DType = dtype.U16
	}
	return dataset.NewImages(files, masks)
}

// deep reports whether the first of files is a grey PNG of 16 bits, as depth maps and
// numbers of objects are. That it cannot be read shows later.
func deep(ctx context.Context, files dataset.Files) bool {
	r, err := files.NewFileReader()
	if err != nil {
		return false
	}
	defer r.Close()
	content, err := r.ReadFile(ctx, 0, nil)
	if err != nil {
		return false
	}
	header, err := png.DecodeConfig(bytes.NewReader(content))
	return err == nil && header.ColorModel == color.Gray16Model
}

// folderOf is the folder that a dataset of pictures is of, or nil.
func folderOf(ds dataset.Dataset) *dataset.Folder {
	if pictures, ok := ds.(*dataset.Images); ok {
		folder, _ := pictures.Files.(*dataset.Folder)
		return folder
	}
	return nil
}
