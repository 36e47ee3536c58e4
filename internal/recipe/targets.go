package recipe

import (
	"bytes"
	"context"
	"errors"
	"image/color"
	"image/png"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
)

// OpenTarget opens what goes with the samples of ds, which stays the caller's to
// close, as the result is. Pictures are masks; where both are folders, they are
// found by the names of the photos. It fails as [dataset.Open] and
// [dataset.Match] do.
func OpenTarget(ctx context.Context, path string, ds dataset.Dataset, options dataset.Options) (dataset.Dataset, error) {
	opened, err := dataset.Open(ctx, path, options)
	if err != nil {
		return nil, err
	}
	pictures, ok := dataset.As[*photos.Images](opened)
	if !ok {
		return opened, nil
	}
	d, err := masks(ctx, pictures.Files, ds)
	if err != nil {
		return nil, errors.Join(err, dataset.Close(opened))
	}
	return dataset.Owning(d, closer{opened}), nil
}

// closer closes a dataset that may have nothing to close.
type closer struct{ dataset.Dataset }

func (c closer) Close() error { return dataset.Close(c.Dataset) }

// masks makes masks of pictures, which what is done to those of ds is done to.
func masks(ctx context.Context, files dataset.Files, ds dataset.Dataset) (dataset.Dataset, error) {
	opts := photos.Options{Decode: imaging.Options{Indexes: true}}
	if with, ok := dataset.As[dataset.Encoded](ds); ok {
		opts.Transform = with.Transform()
	}
	var err error
	if folder, ok := files.(*dataset.Folder); ok {
		if with := folderOf(ds); with != nil {
			if files, err = dataset.Match(with, folder, nil); err != nil {
				return nil, err
			}
		}
	}
	if deep(ctx, files) {
		opts.Decode.DType = dtype.U16
	}
	return photos.New(files, opts)
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
	if pictures, ok := dataset.As[*photos.Images](ds); ok {
		folder, _ := pictures.Files.(*dataset.Folder)
		return folder
	}
	return nil
}
