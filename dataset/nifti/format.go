package nifti

import (
	"context"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/listing"
)

// Extensions are the ends of the names of volumes.
var Extensions = []string{".nii", ".nii.gz"}

func init() {
	dataset.Register(dataset.Format{
		Name:    "nifti",
		Title:   "NIfTI volumes",
		Files:   ".nii, .nii.gz, or a folder of them",
		Samples: "a volume {Z, Y, X}: each file of a folder, or along the fourth axis of a file",
		Folder:  Extensions,
		Options: []dataset.Option{
			{Name: "crop", Kind: dataset.Shape, Usage: "`ZxYxX` that volumes are cropped and padded to, around their centre (default: as they are)"},
		},
		Sniff: func(at *dataset.Location) dataset.Confidence {
			switch {
			case begins(at.Head()):
				return dataset.Certain
			case at.Count(Extensions...) > 0:
				return dataset.Likely
			case at.Head() != nil && listing.HasExtension(at.Path(), Extensions):
				return dataset.Possible // opening it says what is wrong
			}
			return dataset.NoMatch
		},
		Open: func(ctx context.Context, at *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			opts := Options{Size: values.Shape("crop")}
			if at.IsFolder() {
				return openAt(ctx, at, opts)
			}
			return Open(ctx, at.Path(), opts)
		},
	})
}

// openAt opens the volumes of a folder that is listed already.
func openAt(ctx context.Context, at *dataset.Location, opts Options) (dataset.Dataset, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	folder, err := at.Folder(dataset.FolderOptions{Extensions: Extensions})
	if err != nil {
		return nil, err
	}
	return openVolumes(ctx, folder, opts)
}
