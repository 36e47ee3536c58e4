package jsonl

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/internal/labels"
	"github.com/pinion-gpu/pinion/dataset/internal/lines"
	"github.com/pinion-gpu/pinion/dtype"
)

// Options says how a file of JSON lines is read. The zero value works for
// lines that are arrays of numbers, and for objects of one field.
type Options struct {
	// Field is the field of each line that holds the sample: a name, or names
	// with dots between them for objects in objects. Default: the line itself
	// if it is no object, else the only field beside Label.
	Field string
	// Label is the field that holds the label. Whole numbers are classes; texts
	// become classes with a table ([Dataset.Classes]); other numbers, and lists of
	// them, are targets ([Dataset.Targets]). Default: none, all labels are -1.
	Label string
	// DType is the type of the samples' elements: F32, F64, or for whole
	// numbers I32 or I64. Default F32.
	DType dtype.DType
	// Ragged allows samples of different lengths: [1, 2] and [3], or clouds of
	// points. Numbers are samples without a length, whatever this says. Default
	// false: all samples are of one shape.
	Ragged bool
}

// Dataset is a file of one JSON value a line, each with a sample: a number,
// or an array of numbers or of arrays of one shape.
type Dataset struct {
	dataset.Dataset
	labels labels.Set
}

// Open reads a whole file into memory, where samples take at most
// four times the room of their text, and most often less. It is not read line
// by line when samples are needed, since finding the shapes of all lines is
// most of the work, and every epoch would do it again.
//
// Lines end in LF or CR LF; blank ones are skipped. Numbers are rounded to
// float64 and then to the element type. Errors name the line, from 1. It fails
// with [dataset.ErrFormat] for a line that is not JSON, for a field that is not there
// or no numbers, a number that does not fit, and samples of different shapes,
// naming both; with [dataset.ErrEmpty] when there are no numbers; with [dataset.ErrTooLarge]
// for a line of more than 16 MiB or more than 32 axes; with [dataset.ErrArgument] for
// impossible options, with [dataset.ErrDamaged] for a file that changes while it is
// read, and with the cause of ctx when that ends before.
func Open(ctx context.Context, path string, opts Options) (*Dataset, error) {
	opts.DType = cmp.Or(opts.DType, dtype.F32)
	switch opts.DType {
	case dtype.F32, dtype.F64, dtype.I32, dtype.I64:
	default:
		return nil, fmt.Errorf("%s: %w: JSON numbers as %v; want f32, f64, i32 or i64", path, dataset.ErrArgument, opts.DType)
	}
	f, size, err := file.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := parser{opts: opts, offsets: []int64{0}}
	if err := p.read(ctx, &lines.Blocks{R: f, Left: size, Bytes: 1 << 20}, runtime.GOMAXPROCS(0)); err != nil {
		return nil, fmt.Errorf("%s%w", path, err)
	}
	set, err := p.labels.Finish(path)
	if err != nil {
		return nil, err
	}
	spec, memory := dataset.Spec{Shape: p.shape, DType: opts.DType}, dataset.MemoryOptions{Labels: set.Labels, Name: path}
	var d dataset.Dataset
	if opts.Ragged && len(p.shape) > 0 {
		d, err = dataset.NewMemoryRagged(p.data, spec, p.offsets, memory)
	} else {
		d, err = dataset.NewMemory(p.data, spec, memory)
	}
	if err != nil {
		return nil, err
	}
	return &Dataset{d, set}, nil
}

// Unwrap returns the samples in memory.
func (d *Dataset) Unwrap() dataset.Dataset { return d.Dataset }

// Classes returns the sorted texts of the labels, to which labels are indexes; nil
// where they are numbers.
func (d *Dataset) Classes() []string { return slices.Clone(d.labels.Names) }

// Targets returns the labels that are no classes, as f32; nil where there are none.
func (d *Dataset) Targets() dataset.Dataset { return d.labels.Targets }

// Length implements [dataset.Ragged].
func (d *Dataset) Length(i int) int { return dataset.Length(d.Dataset, i) }
