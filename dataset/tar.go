package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pinion-gpu/pinion/dataset/shard"
)

// TarOptions configures [OpenTar]. The zero value works.
type TarOptions struct {
	// Shards says how shards are opened and what of them is kept.
	Shards shard.Options
	// Extensions says which member of a sample is the file: the first of
	// these that the sample has. Default: jpg, jpeg, png, webp. Samples
	// without one are left out.
	Extensions []string
}

// Tar is files in tar shards, one of every sample: see package shard. It has
// the names of the classes where the shards do, as those of [PackFolder].
type Tar struct {
	*shard.View
	set   *shard.Set
	owned bool // close the set
}

// OpenTar opens the shards at a location: a file, a folder of .tar files, a
// pattern such as train-{000..127}.tar, or a URL of those. Close closes them.
// Errors are those of [shard.Open], and [ErrEmpty] where no sample has a
// member of those extensions.
func OpenTar(ctx context.Context, location string, opts TarOptions) (*Tar, error) {
	set, err := shard.Open(ctx, location, opts.Shards)
	if err != nil {
		return nil, err
	}
	t, err := NewTar(set, opts.Extensions...)
	if err != nil {
		return nil, errors.Join(err, set.Close())
	}
	t.owned = true
	return t, nil
}

// NewTar makes files of one member of every sample of a set, as
// [TarOptions].Extensions says. The set stays the caller's, who closes it when
// the files are no longer in use.
func NewTar(set *shard.Set, extensions ...string) (*Tar, error) {
	if len(extensions) == 0 {
		for _, e := range imageExtensions {
			extensions = append(extensions, e[1:])
		}
	}
	view, err := set.View(extensions...)
	if err != nil {
		return nil, err
	}
	return &Tar{View: view, set: set}, nil
}

// Set returns the samples with all their members.
func (t *Tar) Set() *shard.Set { return t.set }

// NewFileReader implements [Files].
func (t *Tar) NewFileReader() (FileReader, error) { return &tarReader{tar: t}, nil }

// Close closes the shards, unless the caller had opened them.
func (t *Tar) Close() error {
	if !t.owned {
		return nil
	}
	return t.set.Close()
}

type tarReader struct {
	tar    *Tar
	closed bool
}

// ReadFile implements [FileReader].
func (r *tarReader) ReadFile(ctx context.Context, i int, buf []byte) ([]byte, error) {
	if r.closed {
		return nil, fmt.Errorf("file %d of shards: %w", i, fs.ErrClosed)
	}
	return r.tar.Read(ctx, i, buf)
}

// Close implements [FileReader].
func (r *tarReader) Close() error {
	r.closed = true
	return nil
}

// tarHead reports whether a file that begins like that is a tar.
func tarHead(head []byte) bool {
	const at, magic = 257, "ustar"
	return len(head) >= 512 && string(head[at:at+len(magic)]) == magic
}

// openTar opens shards of pictures, or else of arrays.
func openTar(ctx context.Context, location string, opts Options) (Dataset, error) {
	set, err := shard.Open(ctx, location, opts.Tar.Shards)
	if err != nil {
		return nil, err
	}
	d, err := tarDataset(ctx, set, opts)
	if err != nil {
		return nil, errors.Join(err, set.Close())
	}
	return d, nil
}

// tarDataset makes a dataset that closes the set.
func tarDataset(ctx context.Context, set *shard.Set, opts Options) (Dataset, error) {
	const array = "npy"
	extensions := opts.Tar.Extensions
	files, err := NewTar(set, extensions...)
	if len(extensions) == 0 && errors.Is(err, ErrEmpty) {
		extensions = []string{array}
		if arrays, other := NewTar(set, array); other == nil {
			files, err = arrays, nil
		}
	}
	if err != nil {
		return nil, err
	}
	files.owned = true
	if len(extensions) == 1 && strings.EqualFold(extensions[0], array) {
		d, err := NewArrays(ctx, files)
		if err != nil {
			return nil, err
		}
		d.owned = files
		return d, nil
	}
	d, err := NewImages(files, opts.Image)
	if err != nil {
		return nil, err
	}
	d.owned = files
	return d, nil
}
