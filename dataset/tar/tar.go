package tar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/dataset/shard"
)

// Options configures [OpenFiles]. The zero value works.
type Options struct {
	// Shards says how shards are opened and what of them is kept.
	Shards shard.Options
	// Extensions says which member of a sample is the file: the first of
	// these that the sample has. Default: jpg, jpeg, png, webp. Samples
	// without one are left out.
	Extensions []string
}

// Files is files in tar shards, one of every sample: see package shard. It has
// the names of the classes where the shards do, as those of [Pack].
type Files struct {
	*shard.View
	set   *shard.Set
	owned bool // close the set
}

// OpenFiles opens the shards at a location: a file, a folder of .tar files, a
// pattern such as train-{000..127}.tar, or a URL of those. Close closes them.
// Errors are those of [shard.Open], and [dataset.ErrEmpty] where no sample has a
// member of those extensions.
func OpenFiles(ctx context.Context, location string, opts Options) (*Files, error) {
	set, err := shard.Open(ctx, location, opts.Shards)
	if err != nil {
		return nil, err
	}
	t, err := NewFiles(set, opts.Extensions...)
	if err != nil {
		return nil, errors.Join(err, set.Close())
	}
	t.owned = true
	return t, nil
}

// NewFiles makes files of one member of every sample of a set, as
// [Options].Extensions says. The set stays the caller's, who closes it when
// the files are no longer in use.
func NewFiles(set *shard.Set, extensions ...string) (*Files, error) {
	if len(extensions) == 0 {
		for _, e := range photos.Extensions {
			extensions = append(extensions, e[1:])
		}
	}
	view, err := set.View(extensions...)
	if err != nil {
		return nil, err
	}
	return &Files{View: view, set: set}, nil
}

// Set returns the samples with all their members.
func (t *Files) Set() *shard.Set { return t.set }

// NewFileReader implements [dataset.Files].
func (t *Files) NewFileReader() (dataset.FileReader, error) { return &reader{tar: t}, nil }

// Close closes the shards, unless the caller had opened them.
func (t *Files) Close() error {
	if !t.owned {
		return nil
	}
	return t.set.Close()
}

type reader struct {
	tar    *Files
	closed bool
}

// ReadFile implements [dataset.FileReader].
func (r *reader) ReadFile(ctx context.Context, i int, buf []byte) ([]byte, error) {
	if r.closed {
		return nil, fmt.Errorf("file %d of shards: %w", i, fs.ErrClosed)
	}
	return r.tar.Read(ctx, i, buf)
}

// Close implements [dataset.FileReader].
func (r *reader) Close() error {
	r.closed = true
	return nil
}
