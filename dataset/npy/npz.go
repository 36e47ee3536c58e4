package npy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/internal/names"
)

// NPZ is an array of a .npz file, the archive that numpy.savez writes, and
// labels from another one of it if there are any. Arrays are as in [Array].
type NPZ struct {
	dataset.Dataset
	file   io.ReaderAt
	arrays []string
}

// NPZOptions configures [OpenNPZ]. The zero value works for a file of one
// array.
type NPZOptions struct {
	// Array is the name of the array that holds the samples. Default: the only
	// one beside Label, or else the first that is there of "x", "data" and
	// "arr_0", which is what numpy.savez calls an array without a name.
	Array string
	// Label is the name of the array that holds the labels: whole numbers of
	// shape {N} or {N, 1}, which are read into memory. Default: none, all
	// labels are -1.
	Label string
	// MaxBytes is the largest array that is read of those that are compressed,
	// decompressed, or in Fortran order. Default 4 GiB.
	MaxBytes int64
}

// usualNames are what the array of the samples is called, unless the options
// say it.
var usualNames = []string{"x", "data", "arr_0"}

// OpenNPZ opens an array of an archive. Arrays of numpy.savez are read in
// place, as .npy files are, and the archive's checksum is not looked at; those
// of numpy.savez_compressed are decompressed into memory once, until ctx ends.
// Close closes the file.
//
// It fails with [dataset.ErrFormat] for what is no archive of arrays or an array of
// another kind, [dataset.ErrEmpty] for an array of no elements, [dataset.ErrDamaged] for a
// broken archive, [dataset.ErrTooLarge], or [dataset.ErrArgument] for a name that the file
// does not have; then the error lists those it has.
func OpenNPZ(ctx context.Context, path string, opts NPZOptions) (*NPZ, error) {
	opts.MaxBytes = cmp.Or(max(opts.MaxBytes, 0), defaultMaxBytes)
	f, size, err := file.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	d, err := newNPZ(ctx, path, f, size, opts)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func newNPZ(ctx context.Context, path string, f io.ReaderAt, size int64, opts NPZOptions) (*NPZ, error) {
	archive, err := readArchive(f, size)
	if err != nil {
		return nil, err
	}
	d := &NPZ{file: f, arrays: archive.names()}
	if opts.Array == "" {
		others := slices.DeleteFunc(slices.Clone(d.arrays), func(name string) bool { return name == opts.Label })
		usual := slices.DeleteFunc(slices.Clone(usualNames), func(name string) bool { return !slices.Contains(others, name) })
		switch {
		case len(others) == 1:
			opts.Array = others[0]
		case len(usual) > 0:
			opts.Array = usual[0]
		default:
			return nil, fmt.Errorf("%w: which array holds the samples? There are %s (Array, --field)", dataset.ErrArgument, names.Listed(d.arrays))
		}
	}
	samples, err := archive.open(ctx, opts.Array, opts.MaxBytes)
	if err != nil {
		return nil, err
	}
	n := samples.header.shape[0]
	var labels []int32
	if opts.Label != "" {
		l, err := archive.open(ctx, opts.Label, opts.MaxBytes)
		if err == nil {
			labels, err = l.labels(n)
		}
		if err != nil {
			return nil, err
		}
	}
	d.Dataset, err = samples.header.dataset(ctx, samples, samples.header.bytes, path+":"+opts.Array, labels, opts.MaxBytes)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Unwrap returns the array alone.
func (d *NPZ) Unwrap() dataset.Dataset { return d.Dataset }

// Arrays returns the sorted names of all arrays of the file.
func (d *NPZ) Arrays() []string { return slices.Clone(d.arrays) }

// Close closes the file.
func (d *NPZ) Close() error {
	if c, ok := d.file.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
