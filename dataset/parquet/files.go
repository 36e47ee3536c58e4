package parquet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
)

// FileOptions says how Parquet files are read as files in them. The zero value
// works for datasets of images of the Hugging Face hub.
type FileOptions struct {
	// Column is the column of the files' bytes, or the struct that has it:
	// "image" for "image.bytes". Default: the only column of bytes.
	Column string
	// Label is the column of the labels: whole numbers of 32 bits; texts, which
	// become classes with a table ([Files.Classes]); or floats, which are targets
	// ([Files.Targets]). A null is -1, or NaN. Several columns of numbers, with
	// commas between their names, are targets too, side by side. Default: none, all
	// labels are -1.
	Label string
	// MaxFileBytes is the largest file that is read. Default 256 MiB.
	MaxFileBytes int64
	// CacheBytes is the room for decoded row groups, which all readers share.
	// A row group that is larger is an error. Each reader that is decoding may
	// take as much for pages, and most often takes little. Default 1 GiB.
	CacheBytes int64
}

// Files is rows of Parquet files with a file in each, such as an encoded
// picture: package photos makes samples of them.
type Files struct {
	table
	limit   int64
	classes []string
}

// OpenFiles opens the Parquet files that path stands for, as [Open] does, and
// with its errors.
func OpenFiles(ctx context.Context, path string, opts FileOptions) (*Files, error) {
	t, err := openTable(ctx, path, opts.CacheBytes)
	if err != nil {
		return nil, err
	}
	return t.files(ctx, opts)
}

// files makes files of a column of bytes.
func (t *table) files(ctx context.Context, opts FileOptions) (*Files, error) {
	d := &Files{table: *t, limit: cmp.Or(max(opts.MaxFileBytes, 0), 256<<20)}
	if err := d.choose(opts.blobs, opts.Label); err != nil {
		return nil, err
	}
	for _, g := range d.groups {
		g.size = g.source.bytes(g.index, g.source.samples[0])
		if err := d.fits(g, g.size+8*int64(g.rows+1)); err != nil {
			return nil, err
		}
	}
	if opts.Label != "" {
		if err := d.readLabels(ctx); err != nil {
			return nil, err
		}
		if d.classes = d.table.names; d.classes == nil {
			d.classes = d.sources[0].classes(opts.Label)
		}
	}
	return d, nil
}

// blobs returns the column of the files.
func (o FileOptions) blobs(leaves []column) ([]column, error) {
	if o.Column != "" {
		c, err := named(leaves, o.Column, blob)
		return []column{c}, err
	}
	var found []column
	for _, c := range leaves {
		if c.kind == blob {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%w: no column of bytes among %s", dataset.ErrFormat, names(leaves))
	case 1:
		return found, nil
	}
	return nil, fmt.Errorf("%w: say which column: there are bytes in %s", dataset.ErrArgument, names(found))
}

// Classes returns the names of the classes, to which labels are indexes: the sorted
// texts of the labels, or what Hugging Face's datasets have written beside numbers;
// else nil.
func (d *Files) Classes() []string { return slices.Clone(d.classes) }

// NewFileReader implements [dataset.Files].
func (d *Files) NewFileReader() (dataset.FileReader, error) { return &fileReader{files: d}, nil }

// block returns a row group, from the cache or decoded.
func (d *Files) block(ctx context.Context, g *group) (*block, error) {
	for {
		need := g.need.Load()
		b, err := d.cache.get(ctx, g, need, func() (b *block, err error) {
			err = g.source.read(g.index, func(rg *openGroup) error {
				b, err = decodeBlobs(ctx, rg, g.source.samples[0], g.rows, d.limit, need, g.size)
				return err
			})
			if err == nil {
				g.need.Store(b.bytes())
			}
			return b, err
		})
		switch {
		case !errors.Is(err, errRoom):
			return b, err
		case need == d.cache.max:
			return nil, fmt.Errorf("%s: %w: row group %d needs more than %d bytes; raise CacheBytes or write smaller row groups",
				g.source.path, dataset.ErrTooLarge, g.index, need)
		}
		g.need.Store(d.cache.max)
	}
}

type fileReader struct {
	files  *Files
	closed bool
}

// ReadFile implements [dataset.FileReader].
func (r *fileReader) ReadFile(ctx context.Context, i int, buf []byte) ([]byte, error) {
	d := r.files
	if err := d.checkIndex(i); err != nil {
		return nil, err
	}
	if r.closed {
		return nil, fmt.Errorf("%s: %w", d.Name(i), fs.ErrClosed)
	}
	g, row := d.at(i)
	b, err := d.block(ctx, g)
	if err != nil {
		return nil, err
	}
	content, err := b.sample(row)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name(i), err)
	}
	return append(buf[:0], content...), nil
}

// Close implements [dataset.FileReader].
func (r *fileReader) Close() error {
	r.closed = true
	return nil
}
