package points

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/listing"
)

// Extensions are the ends of the names of point clouds.
var Extensions = []string{".bin", ".pcd"}

func init() {
	dataset.Register(dataset.Format{
		Name:    "points",
		Title:   "point clouds",
		Files:   "folder of .bin (KITTI, nuScenes) or .pcd",
		Samples: "the points of a file, {points, columns} of f32, ragged",
		Folder:  Extensions,
		Options: []dataset.Option{
			{Name: "columns", Kind: dataset.Int, Usage: "numbers per point in .bin files: 4 in KITTI, 5 in nuScenes (default: 5 for .pcd.bin, else 4)"},
			{Name: "fields", Kind: dataset.List, Usage: "`NAMES` of the fields of .pcd files that make up a point (default: x,y,z and intensity, if there is one)"},
		},
		Sniff: func(at *dataset.Location) dataset.Confidence {
			if at.Count(Extensions...) > 0 || single(at) {
				return dataset.Possible
			}
			return dataset.NoMatch
		},
		Open: func(ctx context.Context, at *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			if single(at) {
				return nil, fmt.Errorf("%s: %w: point clouds are read from a folder: open %q; a file of bare samples needs their shape and type (OpenRaw, --raw)", at.Path(), dataset.ErrFormat, filepath.Dir(at.Path()))
			}
			opts, err := Options{Columns: values.Int("columns"), Fields: values.List("fields")}.withDefaults()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", at.Path(), err)
			}
			folder, err := at.Folder(dataset.FolderOptions{MaxFileBytes: opts.MaxBytes, Extensions: Extensions})
			if err != nil {
				return nil, err
			}
			return open(ctx, folder, at.Path(), opts)
		},
	})
}

// single reports whether there is one file with the name of a cloud: opening it
// says what is wrong.
func single(at *dataset.Location) bool {
	return at.Head() != nil && listing.HasExtension(at.Path(), Extensions)
}
