package csv

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/internal/labels"
	"github.com/pinion-gpu/pinion/dataset/internal/lines"
	"github.com/pinion-gpu/pinion/dtype"
)

// Options says how a CSV file is read. The zero value works.
type Options struct {
	// Label is the column that holds the labels: its name in the header, or its
	// number from 0, or from the end: "-1" is the last. It is no part of the
	// samples. Whole numbers are classes; texts become classes with a table
	// ([Dataset.Classes]); other numbers, and several columns with commas between
	// them, are targets ([Dataset.Targets]). Default: none, all labels are -1.
	Label string
	// DType is the type of the samples' elements: F32 or F64. Default F32.
	DType dtype.DType
	// Delimiter stands between columns. ' ' is any number of blanks and tabs.
	// Default 0: the first that the first row has of tab, ';', '|', ',', ' '.
	Delimiter byte
	// Header says whether the first row holds names: 1 yes, -1 no. Default
	// 0: it does if not all of its fields are numbers, but for those of labels
	// that are given by number.
	Header int
}

// Dataset is a file of rows of numbers, read into memory: a row is a sample of
// one axis.
type Dataset struct {
	dataset.Memory
	columns []string
	labels  labels.Set
}

// Open reads a whole file. Rows end in LF or CR LF; blank lines and lines
// that begin with '#' are skipped. Fields may be quoted. Numbers are those of
// [strconv.ParseFloat], rounded to float64 and then to the element type; a
// missing one is an error, NaN is a number, also "-nan".
//
// Errors name the line, from 1, and the column, by name or from 0. It fails with [dataset.ErrFormat] for a field that is
// no number or does not fit, and rows of
// different lengths; with [dataset.ErrEmpty] when there are no rows or no columns
// beside the label; with [dataset.ErrTooLarge] for a line of more than 16 MiB; with
// [dataset.ErrArgument] for impossible options, with [dataset.ErrDamaged] for a file that
// changes while it is read, and with the cause of ctx when that ends before.
func Open(ctx context.Context, path string, opts Options) (*Dataset, error) {
	if opts.DType == 0 {
		opts.DType = dtype.F32
	}
	if opts.DType != dtype.F32 && opts.DType != dtype.F64 {
		return nil, fmt.Errorf("%s: %w: CSV elements of type %v, want f32 or f64", path, dataset.ErrArgument, opts.DType)
	}
	if opts.Header < -1 || opts.Header > 1 {
		return nil, fmt.Errorf("%s: %w: CSV header %d, want -1, 0 or 1", path, dataset.ErrArgument, opts.Header)
	}
	if opts.Delimiter != 0 && strings.IndexByte("0123456789+-.eE#\"\r\n", opts.Delimiter) >= 0 {
		return nil, fmt.Errorf("%s: %w: CSV delimiter %q", path, dataset.ErrArgument, opts.Delimiter)
	}
	f, size, err := file.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var head [2]byte
	if n, _ := f.ReadAt(head[:], 0); n == 2 && (head == [2]byte{0xff, 0xfe} || head == [2]byte{0xfe, 0xff}) {
		return nil, fmt.Errorf("%s: %w: text in UTF-16, want UTF-8; iconv -f UTF-16 -t UTF-8 converts it", path, dataset.ErrFormat)
	}
	p := parser{opts: opts}
	if err := p.read(ctx, &lines.Blocks{R: f, Left: size, Bytes: 1 << 20}, runtime.GOMAXPROCS(0)); err != nil {
		return nil, fmt.Errorf("%s%w", path, err)
	}
	spec := dataset.Spec{Shape: []int{p.form.width}, DType: opts.DType}
	set, err := p.labels.Finish(path)
	if err != nil {
		return nil, err
	}
	m, err := dataset.NewMemory(p.data, spec, dataset.MemoryOptions{Labels: set.Labels, Name: path})
	if err != nil {
		return nil, err
	}
	return &Dataset{*m, p.names, set}, nil
}

// Classes returns the sorted texts of the labels, to which labels are indexes; nil
// where they are numbers.
func (d *Dataset) Classes() []string { return slices.Clone(d.labels.Names) }

// Targets returns the labels that are no classes, {columns} of f32, or scalars; nil
// where there are none.
func (d *Dataset) Targets() dataset.Dataset { return d.labels.Targets }

// Columns returns the names of the samples' columns, nil if the file has no
// header.
func (d *Dataset) Columns() []string { return slices.Clone(d.columns) }
