package parquet

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
)

// Options says how Parquet files are read as numbers. The zero value works for
// files whose columns of numbers are all of the sample.
type Options struct {
	// Columns are what a sample is made of, in this order: numbers, side by
	// side, or one column of lists. A field of a struct is "struct.field".
	// Default: all columns of numbers but Label; or, where there are none, the
	// only column of lists. Columns that are neither, such as text, are left
	// out, and [dataset.Warnings] names them.
	Columns []string
	// Label is the column of the labels: whole numbers of 32 bits; texts, which
	// become classes with a table ([Dataset.Classes]); or floats, which are targets
	// ([Dataset.Targets]). A null is -1, or NaN. Several columns of numbers, with
	// commas between their names, are targets too, side by side. Default: none, all
	// labels are -1.
	Label string
	// DType is the type of the samples' elements. Numbers are rounded to it
	// where it is a float, and have to be what it can hold. Default: the
	// smallest that keeps every value of the columns' types: I64 for an I32
	// beside an I64, F32 for an F32 beside an I16, F64 for an F32 beside an
	// I32. 64-bit numbers beside floats become F64, and such without sign
	// I64. Booleans are U8.
	DType dtype.DType
	// Length is the length of every list. Then no list is read to find that
	// out, and one of another length is an error of its sample. Default 0:
	// [Open] reads the lengths of all lists; where they differ, the dataset is
	// a [dataset.Ragged] one.
	Length int
	// Fill stands for numbers that are null, also in lists; a list that is
	// null is then an empty one. Default nil: a null is an error of its
	// sample.
	Fill *float64
	// CacheBytes is the room for decoded row groups, which all readers share.
	// A row group that is larger is an error. Each reader that is decoding may
	// take as much for pages, and most often takes little. Default 1 GiB.
	CacheBytes int64
}

// Dataset is rows of Parquet files: samples of numbers.
type Dataset struct {
	table
	spec    dataset.Spec
	element element
	lengths []int32 // of the lists; nil if all are of one length
	lists   bool
	left    []column // out of the samples of the first file, as no numbers
}

// Open opens the Parquet files that path stands for: a file; a folder, whose
// files *.parquet are read in the order of their names; or a pattern of
// [filepath.Match], such as "data/train-*.parquet". Columns may stand at other
// places and have other types in each of them.
//
// Columns of single numbers make samples of shape {columns}, a column of lists
// {length}. Open reads the footers of the files, the labels, and the lengths
// of lists, but no samples, and leaves no file open. A file must not change
// thereafter.
//
// It fails with [dataset.ErrEmpty] when there are no rows, or no numbers in
// any; with [dataset.ErrArgument] for columns that are not there and for
// impossible options; with [dataset.ErrFormat] for columns of other kinds,
// labels that do not fit, and files that are encrypted; with
// [dataset.ErrTooLarge] when a row group, or the labels or lengths of all, do
// not fit in CacheBytes; with [dataset.ErrDamaged] for files that are corrupt
// or cut short.
func Open(ctx context.Context, path string, opts Options) (*Dataset, error) {
	if opts.Length < 0 || opts.DType != 0 && !opts.DType.Valid() {
		return nil, fmt.Errorf("%s: %w: lists of %d numbers, elements of type %v", path, dataset.ErrArgument, opts.Length, opts.DType)
	}
	t, err := openTable(ctx, path, opts.CacheBytes)
	if err != nil {
		return nil, err
	}
	return t.dataset(ctx, opts)
}

// dataset makes samples of numbers.
func (t *table) dataset(ctx context.Context, opts Options) (*Dataset, error) {
	d := &Dataset{table: *t}
	if err := d.choose(opts.numbers, opts.Label); err != nil {
		return nil, err
	}
	if opts.Columns == nil {
		d.noteLeft()
	}
	if err := d.setElement(opts); err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	if err := d.setShape(ctx, opts.Length); err != nil {
		return nil, err
	}
	if opts.Label != "" {
		if err := d.readLabels(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// numbers returns the columns of samples.
func (o Options) numbers(leaves []column) ([]column, error) {
	if o.Columns == nil {
		return o.allNumbers(leaves)
	}
	var chosen []column
	for _, name := range o.Columns {
		c, err := named(leaves, name, scalar, list)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, c)
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%w: no columns", dataset.ErrArgument)
	}
	if len(chosen) > 1 && slices.ContainsFunc(chosen, func(c column) bool { return c.kind == list }) {
		return nil, fmt.Errorf("%w: one of the columns %s has lists, and has to be the only one", dataset.ErrArgument, names(chosen))
	}
	return chosen, nil
}

// allNumbers is numbers where none are named.
func (o Options) allNumbers(leaves []column) ([]column, error) {
	var label []column
	if o.Label != "" {
		var err error
		if label, err = labelColumns(leaves, o.Label); err != nil {
			return nil, err
		}
	}
	var scalars, lists []column
	for _, c := range leaves {
		switch {
		case slices.ContainsFunc(label, func(l column) bool { return l.index == c.index }):
		case c.kind == scalar:
			scalars = append(scalars, c)
		case c.kind == list:
			lists = append(lists, c)
		}
	}
	switch {
	case len(lists) == 0 && len(scalars) == 0:
		return nil, fmt.Errorf("%w: no column of numbers among %s", dataset.ErrFormat, names(leaves))
	case len(lists) == 0:
		return scalars, nil
	case len(lists) == 1 && len(scalars) == 0:
		return lists, nil
	}
	return nil, fmt.Errorf("%w: say which columns: there are numbers in %s", dataset.ErrArgument, names(append(scalars, lists...)))
}

// noteLeft notes the columns that are in no sample because they hold no numbers.
func (d *Dataset) noteLeft() {
	first := d.sources[0]
	for _, c := range first.columns() {
		used := slices.ContainsFunc(slices.Concat(first.samples, first.label), func(u column) bool { return u.index == c.index })
		if !used {
			d.left = append(d.left, c)
		}
	}
}

// Warnings implements what [dataset.Warnings] asks for.
func (d *Dataset) Warnings() []string {
	if len(d.left) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("left out, as they hold no plain numbers: %s (Columns, --field)", names(d.left))}
}

// setElement settles the type of the elements, which is one for all files.
func (d *Dataset) setElement(opts Options) (err error) {
	first := d.sources[0]
	var types []number
	for _, s := range d.sources {
		if len(s.samples) != len(first.samples) || s.samples[0].kind != first.samples[0].kind {
			return fmt.Errorf("%w: %s has columns %s, %s has %s", dataset.ErrFormat, first.path, names(first.samples), s.path, names(s.samples))
		}
		for i, c := range s.samples {
			if c.name != first.samples[i].name && opts.Columns == nil {
				return fmt.Errorf("%w: %s has a column %q, %s has %q", dataset.ErrFormat, first.path, first.samples[i].name, s.path, c.name)
			}
			types = append(types, c.number)
		}
	}
	if opts.DType == 0 {
		opts.DType = common(types)
	}
	d.lists = first.samples[0].kind == list
	d.element, err = newElement(opts.DType, opts.Fill)
	return err
}

// setShape settles the shape of the samples and checks that they fit.
func (d *Dataset) setShape(ctx context.Context, length int) error {
	width, ragged := len(d.sources[0].samples), false
	if d.lists {
		width = length
		if length == 0 {
			if err := d.readLengths(ctx); err != nil {
				return err
			}
			width = int(slices.Max(d.lengths))
			ragged = int(slices.Min(d.lengths)) < width
			if !ragged {
				d.lengths = nil
			}
		}
	}
	if width == 0 {
		return fmt.Errorf("%s: %w: all lists of column %q are empty", d.name, dataset.ErrEmpty, d.sources[0].samples[0].name)
	}
	if width > math.MaxInt32 {
		return fmt.Errorf("%s: %w: %d numbers a sample", d.name, dataset.ErrArgument, width)
	}
	d.spec = dataset.Spec{Shape: []int{width}, DType: d.element.dtype, Ragged: ragged}
	for _, g := range d.groups {
		if err := d.fits(g, d.groupBytes(g)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dataset) readLengths(ctx context.Context) (err error) {
	d.lengths, err = d.index(ctx, "lengths of lists", func(ctx context.Context, rg *openGroup, g *group, into []int32) error {
		return lengths(ctx, rg, g.source.samples[0], into)
	})
	return err
}

// groupBytes returns what a decoded row group takes: more than any cache has,
// where that is too much to count.
func (d *Dataset) groupBytes(g *group) int64 {
	if !d.lists {
		return int64(g.rows) * int64(d.spec.Bytes())
	}
	numbers := int64(g.rows) * int64(d.spec.Shape[0])
	if d.lengths != nil {
		numbers = 0
		for _, n := range d.lengths[g.start:][:g.rows] {
			numbers += int64(n)
		}
	}
	if numbers > math.MaxInt64/16 {
		return math.MaxInt64
	}
	return numbers*int64(d.element.dtype.Size()) + 8*int64(g.rows+1)
}

// Spec implements [dataset.Dataset].
func (d *Dataset) Spec() dataset.Spec {
	s := d.spec
	s.Shape = slices.Clone(s.Shape)
	return s
}

// Length implements [dataset.Ragged].
func (d *Dataset) Length(i int) int {
	if d.lengths == nil {
		return d.spec.Shape[0]
	}
	return int(d.lengths[i])
}

// Classes returns the sorted texts of the labels, to which labels are indexes; nil
// where they are numbers.
func (d *Dataset) Classes() []string { return slices.Clone(d.table.names) }

// Columns returns the names of the columns that a sample is made of.
func (d *Dataset) Columns() []string {
	var list []string
	for _, c := range d.sources[0].samples {
		list = append(list, c.name)
	}
	return list
}

// NewReader implements [dataset.Dataset]. A read of a row group that is not in
// the cache decodes all of it.
func (d *Dataset) NewReader() (dataset.Reader, error) { return &reader{dataset: d}, nil }

// decode decodes a row group.
func (d *Dataset) decode(ctx context.Context, g *group) (b *block, err error) {
	err = g.source.read(g.index, func(rg *openGroup) error {
		if d.lists {
			b, err = decodeLists(ctx, rg, g.source.samples[0], d.offsets(g), d.element)
		} else {
			b, err = decodeRows(ctx, rg, g.source.samples, g.rows, d.element)
		}
		return err
	})
	return b, err
}

// offsets returns where the samples of a row group of lists are.
func (d *Dataset) offsets(g *group) []int64 {
	offsets := make([]int64, g.rows+1)
	for i := range g.rows {
		offsets[i+1] = offsets[i] + int64(d.Length(g.start+i)*d.element.dtype.Size())
	}
	return offsets
}

type reader struct {
	dataset *Dataset
	closed  bool
}

// Read implements [dataset.Reader].
func (r *reader) Read(ctx context.Context, v dataset.Visit, dst []byte) error {
	d := r.dataset
	if err := d.checkIndex(v.Index); err != nil {
		return err
	}
	if want := d.Length(v.Index) * d.element.dtype.Size(); len(dst) != want {
		return fmt.Errorf("%s: %w: a destination of %d bytes, a sample has %d", d.Name(v.Index), dataset.ErrArgument, len(dst), want)
	}
	if r.closed {
		return fmt.Errorf("%s: %w", d.Name(v.Index), fs.ErrClosed)
	}
	began := time.Now()
	g, row := d.at(v.Index)
	b, err := d.cache.get(ctx, g, g.need.Load(), func() (*block, error) { return d.decode(ctx, g) })
	if err != nil {
		return err
	}
	sample, err := b.sample(row)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(v.Index), err)
	}
	copy(dst, sample)
	if v.Timing != nil {
		v.Timing.Decode += time.Since(began)
	}
	return nil
}

// Close implements [dataset.Reader].
func (r *reader) Close() error {
	r.closed = true
	return nil
}
