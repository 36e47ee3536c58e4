package safetensors

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/labels"
	"github.com/pinion-gpu/pinion/dataset/internal/names"
	"github.com/pinion-gpu/pinion/dataset/internal/stored"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/safetensors"
)

// Dataset is a tensor in a .safetensors file, and labels from another one
// of the same file if there are any. The first axis counts samples: a tensor
// of shape {N, 3, 8} is N samples of {3, 8}. Types BOOL (read as u8), U8 to U64,
// I8 to I64, F16, BF16, F32 and F64 are read; U32 and U64 become I64, and a number
// that is too large for that is an error of its sample.
type Dataset struct {
	*dataset.Raw
	tensors []string
}

// Options configures [Open]. The zero value works for a file
// of one tensor.
type Options struct {
	// Tensor is the name of the tensor that holds the samples. Default: the
	// only one beside Label.
	Tensor string
	// Label is the name of the tensor that holds the labels: whole numbers
	// of shape {N} or {N, 1}, which are read into memory. Default: none, all
	// labels are -1.
	Label string
}

// Open opens a tensor and reads the file's header. Close closes the file. It
// fails with [dataset.ErrFormat] for what is no such file or a tensor of another
// type, [dataset.ErrEmpty] for a tensor of no elements, [dataset.ErrDamaged] for
// a header that contradicts itself or the file, [dataset.ErrTooLarge], or
// [dataset.ErrArgument] for a name that the file does not have; then the error
// lists those it has.
func Open(_ context.Context, path string, opts Options) (*Dataset, error) {
	f, err := safetensors.OpenFile(path)
	if err != nil {
		return nil, err
	}
	d, err := newDataset(f, opts)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func newDataset(f *safetensors.File, opts Options) (*Dataset, error) {
	var all []string
	for _, t := range f.Tensors {
		all = append(all, t.Name)
	}
	slices.Sort(all)
	if opts.Tensor == "" {
		others := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == opts.Label })
		if len(others) != 1 {
			return nil, fmt.Errorf("%w: which tensor holds the samples? There are %s (Tensor, --field)", dataset.ErrArgument, names.Listed(all))
		}
		opts.Tensor = others[0]
	}
	find := func(name string) (tensor, error) {
		t, ok := f.Find(name)
		if !ok {
			return tensor{}, fmt.Errorf("%w: no tensor %.80q; there are %s", dataset.ErrArgument, name, names.Listed(all))
		}
		return tensor{t}, nil
	}
	t, err := find(opts.Tensor)
	if err != nil {
		return nil, err
	}
	n, spec, err := t.samples()
	if err != nil {
		return nil, fmt.Errorf("%.80q: %w", t.Name, err)
	}
	var labels []int32
	if opts.Label != "" {
		l, err := find(opts.Label)
		if err == nil {
			labels, err = l.labels(n)
		}
		if err != nil {
			return nil, fmt.Errorf("%.80q: %w", opts.Label, err)
		}
	}
	source, at := t.source()
	raw, err := dataset.NewRaw(source, n, spec, dataset.RawOptions{Name: f.Path() + ":" + t.Name, Labels: labels, Offset: at})
	if err != nil {
		return nil, err
	}
	return &Dataset{raw, all}, nil
}

// Tensors returns the sorted names of all tensors of the file.
func (d *Dataset) Tensors() []string { return slices.Clone(d.tensors) }

// types are those that are read, as they are stored.
var types = map[safetensors.DType]stored.Type{
	"BOOL": stored.Of(dtype.U8), "U8": stored.Of(dtype.U8), "I8": stored.Of(dtype.I8), "U16": stored.Of(dtype.U16), "I16": stored.Of(dtype.I16),
	"I32": stored.Of(dtype.I32), "I64": stored.Of(dtype.I64), "U32": stored.Unsigned(4), "U64": stored.Unsigned(8),
	"F16": stored.Of(dtype.F16), "BF16": stored.Of(dtype.BF16), "F32": stored.Of(dtype.F32), "F64": stored.Of(dtype.F64),
}

// tensor is a tensor of samples or labels.
type tensor struct{ safetensors.Tensor }

// samples returns the number and form of a tensor's samples.
func (t tensor) samples() (int, dataset.Spec, error) {
	kind, ok := types[t.DType]
	switch {
	case !ok:
		return 0, dataset.Spec{}, fmt.Errorf("%w: a tensor of type %s; want BOOL, U8 to U64, I8 to I64, F16, BF16, F32 or F64", dataset.ErrFormat, t.DType)
	case len(t.Shape) == 0:
		return 0, dataset.Spec{}, fmt.Errorf("%w: a scalar; want a tensor whose first axis counts samples", dataset.ErrFormat)
	case t.Bytes == 0:
		return 0, dataset.Spec{}, fmt.Errorf("%w: a tensor of shape %d", dataset.ErrEmpty, t.Shape)
	case t.Bytes > math.MaxInt:
		return 0, dataset.Spec{}, fmt.Errorf("%w: a tensor of shape %d", dataset.ErrTooLarge, t.Shape)
	}
	spec := dataset.Spec{DType: kind.DType}
	for _, d := range t.Shape[1:] {
		spec.Shape = append(spec.Shape, int(d))
	}
	return int(t.Shape[0]), spec, nil
}

// labels reads a tensor of n labels.
func (t tensor) labels(n int) ([]int32, error) {
	have, spec, err := t.samples()
	if err != nil {
		return nil, err
	}
	if have != n || spec.Bytes() != spec.DType.Size() {
		return nil, fmt.Errorf("%w: labels of shape %d for %d samples", dataset.ErrArgument, t.Shape, n)
	}
	source, at := t.source()
	return labels.Read(source, at, n, spec.DType)
}

// source returns the tensor's elements as those of samples, and where they begin.
func (t tensor) source() (io.ReaderAt, int64) {
	kind := types[t.DType]
	if kind.Plain() {
		return t.File.OS(), t.Offset
	}
	return stored.Source{Type: kind, R: t.File.OS(), Start: t.Offset}, 0
}
