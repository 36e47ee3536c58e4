package tar

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/npy"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/dataset/shard"
	"github.com/pinion-gpu/pinion/internal/units"
)

func init() {
	dataset.Register(dataset.Format{
		Name:    "tar",
		Title:   "tar shards",
		Files:   ".tar, a folder of them, a pattern train-{000..127}.tar, or an http(s) URL of those",
		Samples: "a picture of each sample, as of a folder of photos, or else a .npy array",
		Options: append(photos.FormatOptions(),
			dataset.LabelOption(),
			dataset.Option{Name: "on-retry", Kind: dataset.Func, Usage: "a func([shard.Retry]) that is called before a request is made again"},
		),
		Sniff: func(at *dataset.Location) dataset.Confidence {
			switch {
			case begins(at.Head()) || shard.Is(at.Path()):
				return dataset.Certain
			}
			return dataset.NoMatch
		},
		Open: func(ctx context.Context, at *dataset.Location, values dataset.Values) (dataset.Dataset, error) {
			pictures, err := photos.OptionsOf(values)
			if err != nil {
				return nil, err
			}
			opts := Options{Shards: shard.Options{Label: values.Text("label")}}
			opts.Shards.OnRetry, _ = values.Func("on-retry").(func(shard.Retry))
			return Open(ctx, at.Path(), opts, pictures)
		},
	})
}

// begins reports whether a file that begins like that is a tar.
func begins(head []byte) bool {
	const at, magic = 257, "ustar"
	return len(head) >= 512 && string(head[at:at+len(magic)]) == magic
}

// Open opens shards as a dataset of pictures, or where no sample has one, of
// arrays. Close it with [dataset.Close].
func Open(ctx context.Context, location string, opts Options, pictures photos.Options) (dataset.Dataset, error) {
	set, err := shard.Open(ctx, location, opts.Shards)
	if err != nil {
		return nil, err
	}
	d, err := open(ctx, set, opts, pictures)
	if err != nil {
		return nil, errors.Join(err, set.Close())
	}
	return dataset.Owning(warned{dataset.Wrapper{Dataset: d}, set}, set), nil
}

// warned is a dataset with the warnings of its shards.
type warned struct {
	dataset.Wrapper
	set *shard.Set
}

// Warnings implements what [dataset.Warnings] asks for.
func (d warned) Warnings() []string { return d.set.Warnings() }

func open(ctx context.Context, set *shard.Set, opts Options, pictures photos.Options) (dataset.Dataset, error) {
	const array = "npy"
	extensions := opts.Extensions
	files, err := NewFiles(set, extensions...)
	if len(extensions) == 0 && errors.Is(err, dataset.ErrEmpty) {
		extensions = []string{array}
		if arrays, other := NewFiles(set, array); other == nil {
			files, err = arrays, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if opts.Shards.Label+opts.Shards.LabelField != "" && !labelled(files) {
		return nil, fmt.Errorf("%s: %w: none of %s has a label %s", files.Name(0), dataset.ErrArgument, units.Count(files.Len(), "sample"), wanted(opts.Shards))
	}
	if len(extensions) == 1 && strings.EqualFold(extensions[0], array) {
		return npy.NewArrays(ctx, files)
	}
	return photos.New(files, pictures)
}

// wanted says in messages where labels were to be.
func wanted(opts shard.Options) string {
	if opts.LabelField != "" {
		return fmt.Sprintf("in the field %q", opts.LabelField)
	}
	return fmt.Sprintf("in a member %q, or in a field of that name in a member json", opts.Label)
}

// labelled reports whether any file has a label.
func labelled(files *Files) bool {
	for i := range files.Len() {
		if files.Label(i) >= 0 {
			return true
		}
	}
	return false
}
