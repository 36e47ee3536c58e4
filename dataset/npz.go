package dataset

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
)

// NPZ is an array of a .npz file, the archive that numpy.savez writes, and
// labels from another one of it if there are any. Arrays are as in [NPY].
type NPZ struct {
	Dataset
	file   *os.File
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
	// MaxBytes is the largest compressed array, decompressed, that is read.
	// Default 4 GiB.
	MaxBytes int64
}

// npzNames are what the array of the samples is called, unless the options
// say it.
var npzNames = []string{"x", "data", "arr_0"}

// OpenNPZ opens an array of an archive. Arrays of numpy.savez are read in
// place, as .npy files are, and the archive's checksum is not looked at; those
// of numpy.savez_compressed are decompressed into memory once, until ctx ends.
// Close closes the file.
//
// It fails with [ErrFormat] for what is no archive of arrays or an array of
// another kind, [ErrEmpty] for an array of no elements, [ErrDamaged] for a
// broken archive, [ErrTooLarge], or [ErrArgument] for a name that the file
// does not have; then the error lists those it has.
func OpenNPZ(ctx context.Context, path string, opts NPZOptions) (*NPZ, error) {
	opts.MaxBytes = cmp.Or(max(opts.MaxBytes, 0), 4<<30)
	f, size, err := openRegular(path)
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

func newNPZ(ctx context.Context, path string, f *os.File, size int64, opts NPZOptions) (*NPZ, error) {
	archive, err := readNPZ(f, size)
	if err != nil {
		return nil, err
	}
	d := &NPZ{file: f, arrays: archive.names()}
	if opts.Array == "" {
		others := slices.DeleteFunc(slices.Clone(d.arrays), func(name string) bool { return name == opts.Label })
		usual := slices.DeleteFunc(slices.Clone(npzNames), func(name string) bool { return !slices.Contains(others, name) })
		switch {
		case len(others) == 1:
			opts.Array = others[0]
		case len(usual) > 0:
			opts.Array = usual[0]
		default:
			return nil, fmt.Errorf("%w: which array holds the samples? There are %s", ErrArgument, listed(d.arrays))
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
	spec := Spec{Shape: samples.header.shape[1:], DType: samples.header.dtype}
	a := array{path + ":" + opts.Array, labels, spec, n, spec.Bytes()}
	if samples.data != nil {
		d.Dataset = &Memory{a, samples.data[samples.header.bytes:]}
	} else {
		d.Dataset = &fileArray{a, f, samples.start + samples.header.bytes}
	}
	return d, nil
}

// Arrays returns the sorted names of all arrays of the file.
func (d *NPZ) Arrays() []string { return slices.Clone(d.arrays) }

// Close closes the file.
func (d *NPZ) Close() error { return d.file.Close() }
