package safetensors

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/internal/labels"
	"github.com/pinion-gpu/pinion/dataset/internal/names"
	"github.com/pinion-gpu/pinion/dataset/internal/stored"
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

// Open opens a tensor and reads the file's header, of at most 16
// MiB. Close closes the file. It fails with [dataset.ErrFormat] for what is no such
// file or a tensor of another type, [dataset.ErrEmpty] for a tensor of no elements,
// [dataset.ErrDamaged] for a header that does not fit the file or overlapping
// tensors, [dataset.ErrTooLarge], or [dataset.ErrArgument] for a name that the file does not
// have; then the error lists those it has.
func Open(_ context.Context, path string, opts Options) (*Dataset, error) {
	f, size, err := file.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	d, err := newDataset(path, f, size, opts)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func newDataset(path string, f *os.File, size int64, opts Options) (*Dataset, error) {
	entries, start, err := readHeader(f, size)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.name)
	}
	slices.Sort(all)
	if opts.Tensor == "" {
		others := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == opts.Label })
		if len(others) != 1 {
			return nil, fmt.Errorf("%w: which tensor holds the samples? There are %s (Tensor, --field)", dataset.ErrArgument, names.Listed(all))
		}
		opts.Tensor = others[0]
	}
	find := func(name string) (entry, error) {
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
		if i < 0 {
			return entry{}, fmt.Errorf("%w: no tensor %.80q; there are %s", dataset.ErrArgument, name, names.Listed(all))
		}
		return entries[i], nil
	}
	e, err := find(opts.Tensor)
	if err != nil {
		return nil, err
	}
	n, spec, err := e.samples()
	if err != nil {
		return nil, fmt.Errorf("%.80q: %w", e.name, err)
	}
	var labels []int32
	if opts.Label != "" {
		l, err := find(opts.Label)
		if err == nil {
			labels, err = l.labels(f, start, n)
		}
		if err != nil {
			return nil, fmt.Errorf("%.80q: %w", opts.Label, err)
		}
	}
	source, at := e.source(f, start)
	raw, err := dataset.NewRaw(source, n, spec, dataset.RawOptions{Name: path + ":" + e.name, Labels: labels, Offset: at})
	if err != nil {
		return nil, err
	}
	return &Dataset{raw, all}, nil
}

// Tensors returns the sorted names of all tensors of the file.
func (d *Dataset) Tensors() []string { return slices.Clone(d.tensors) }

// samples returns the number and form of a tensor's samples.
func (e entry) samples() (int, dataset.Spec, error) {
	t, ok := types[e.DType]
	switch {
	case !ok:
		return 0, dataset.Spec{}, fmt.Errorf("%w: a tensor of type %.20q; want BOOL, U8 to U64, I8 to I64, F16, BF16, F32 or F64", dataset.ErrFormat, e.DType)
	case len(e.Shape) == 0:
		return 0, dataset.Spec{}, fmt.Errorf("%w: a scalar; want a tensor whose first axis counts samples", dataset.ErrFormat)
	case e.Offsets[0] == e.Offsets[1]:
		return 0, dataset.Spec{}, fmt.Errorf("%w: a tensor of shape %d", dataset.ErrEmpty, e.Shape)
	case e.Offsets[1]-e.Offsets[0] > math.MaxInt:
		return 0, dataset.Spec{}, fmt.Errorf("%w: a tensor of shape %d", dataset.ErrTooLarge, e.Shape)
	}
	spec := dataset.Spec{DType: t.DType}
	for _, d := range e.Shape[1:] {
		spec.Shape = append(spec.Shape, int(d))
	}
	return int(e.Shape[0]), spec, nil
}

// labels reads a tensor of n labels.
func (e entry) labels(f *os.File, start int64, n int) ([]int32, error) {
	have, spec, err := e.samples()
	if err != nil {
		return nil, err
	}
	if have != n || spec.Bytes() != spec.DType.Size() {
		return nil, fmt.Errorf("%w: labels of shape %d for %d samples", dataset.ErrArgument, e.Shape, n)
	}
	source, at := e.source(f, start)
	return labels.Read(source, at, n, spec.DType)
}

// source returns the tensor's elements as those of samples, and where they begin.
func (e entry) source(f *os.File, start int64) (io.ReaderAt, int64) {
	t := types[e.DType]
	if t.Plain() {
		return f, start + e.Offsets[0]
	}
	return stored.Source{Type: t, R: f, Start: start + e.Offsets[0]}, 0
}
