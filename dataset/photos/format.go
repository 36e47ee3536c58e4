package photos

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/listing"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
)

// Extensions are the ends of the names of pictures.
var Extensions = []string{".jpg", ".jpeg", ".png", ".webp"}

// maxSize is the largest side that JPEG, and so a sample, can have.
const maxSize = 65535

// FormatOptions returns the options of every format whose samples may be
// pictures, by name; [OptionsOf] makes typed ones of their values.
func FormatOptions() []dataset.Option {
	return []dataset.Option{
		{Name: "size", Kind: dataset.Int, Default: "224", Usage: "side of the square that photos are cropped to, in pixels"},
		{Name: "depth", Kind: dataset.Int, Default: "8", Values: []string{"8", "16"}, Usage: "bits of each value of photos: 8, or 16 to keep all bits of 16-bit PNGs"},
		{Name: "channels", Kind: dataset.Int, Default: "3", Values: []string{"1", "3"}, Usage: "channels of photos: 3 for colour, or 1 for grey"},
		{Name: "transform", Usage: "transform of photos, such as rrc:224,flip,jitter or resize:256,crop:224,bicubic (default: center:SIZE)"},
		{Name: "indexes", Kind: dataset.Bool, Usage: "read pictures as masks: class numbers, one channel"},
	}
}

// OptionsOf returns the options that the values of [FormatOptions] stand for.
func OptionsOf(v dataset.Values) (o Options, err error) {
	size := v.Int("size")
	if size < 1 || size > maxSize {
		return o, v.Bad("size", fmt.Errorf("%d is not from 1 to %d", size, maxSize))
	}
	if o.Transform, err = imaging.ParseTransform(v.Text("transform"), size); err != nil {
		return o, v.Bad("transform", err)
	}
	o.Decode = imaging.Options{Indexes: v.Bool("indexes")}
	if v.Given("channels") || !o.Decode.Indexes { // masks have one
		o.Decode.Channels = v.Int("channels")
	}
	if v.Int("depth") == 16 {
		o.Decode.DType = dtype.U16
	}
	return o, nil
}

func init() {
	dataset.Register(dataset.Format{
		Name:    "photos",
		Title:   "photos",
		Files:   "folder of .jpg, .jpeg, .png, .webp, a class in each sub-folder",
		Samples: "a picture, decoded and transformed: {height, width, channels} of u8 or u16",
		Folder:  Extensions,
		Options: FormatOptions(),
		Sniff: func(at *dataset.Location) dataset.Confidence {
			if at.Count(Extensions...) > 0 {
				return dataset.Certain
			}
			if single(at) {
				return dataset.Possible
			}
			return dataset.NoMatch
		},
		Open: func(_ context.Context, at *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			opts, err := OptionsOf(values)
			if err != nil {
				return nil, err
			}
			if single(at) {
				return nil, fmt.Errorf("%s: %w: pictures are read from a folder: open %q", at.Path(), dataset.ErrFormat, filepath.Dir(at.Path()))
			}
			folder, err := at.Folder(dataset.FolderOptions{Extensions: Extensions})
			if err != nil {
				return nil, err
			}
			return New(folder, opts)
		},
	})
}

// single reports whether there is one file with the name of a picture: opening it
// says what is wrong.
func single(at *dataset.Location) bool {
	return at.Head() != nil && listing.HasExtension(at.Path(), Extensions)
}
