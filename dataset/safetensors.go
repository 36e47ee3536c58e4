package dataset

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// SafeTensors is a tensor in a .safetensors file, and labels from another one
// of the same file if there are any. The first axis counts samples: a tensor
// of shape {N, 3, 8} is N samples of {3, 8}. Types BOOL (read as u8), U8, I8
// to I64, F16, BF16, F32 and F64 are read.
type SafeTensors struct {
	fileArray
	tensors []string
}

// TensorOptions configures [OpenSafeTensors]. The zero value works for a file
// of one tensor.
type TensorOptions struct {
	// Tensor is the name of the tensor that holds the samples. Default: the
	// only one beside Label.
	Tensor string
	// Label is the name of the tensor that holds the labels: whole numbers
	// of shape {N} or {N, 1}, which are read into memory. Default: none, all
	// labels are -1.
	Label string
}

// OpenSafeTensors opens a tensor and reads the file's header, of at most 16
// MiB. Close closes the file. It fails with [ErrFormat] for what is no such
// file or a tensor of another type, [ErrEmpty] for a tensor of no elements,
// [ErrDamaged] for a header that does not fit the file or overlapping
// tensors, [ErrTooLarge], or [ErrArgument] for a name that the file does not
// have; then the error lists those it has.
func OpenSafeTensors(path string, opts TensorOptions) (*SafeTensors, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	d, err := newSafeTensors(path, f, size, opts)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func newSafeTensors(path string, f *os.File, size int64, opts TensorOptions) (*SafeTensors, error) {
	entries, start, err := readTensorsHeader(f, size)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.name)
	}
	slices.Sort(names)
	if opts.Tensor == "" {
		others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == opts.Label })
		if len(others) != 1 {
			return nil, fmt.Errorf("%w: which tensor holds the samples? There are %s", ErrArgument, listed(names))
		}
		opts.Tensor = others[0]
	}
	find := func(name string) (tensorEntry, error) {
		i := slices.IndexFunc(entries, func(e tensorEntry) bool { return e.name == name })
		if i < 0 {
			return tensorEntry{}, fmt.Errorf("%w: no tensor %.80q; there are %s", ErrArgument, name, listed(names))
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
	a := fileArray{array{path + ":" + e.name, labels, spec, n, spec.Bytes()}, f, start + e.Offsets[0]}
	return &SafeTensors{a, names}, nil
}

// Tensors returns the sorted names of all tensors of the file.
func (d *SafeTensors) Tensors() []string { return slices.Clone(d.tensors) }

// samples returns the number and form of a tensor's samples.
func (e tensorEntry) samples() (int, Spec, error) {
	t, ok := tensorTypes[e.DType]
	switch {
	case !ok:
		return 0, Spec{}, fmt.Errorf("%w: a tensor of type %.20q; want BOOL, U8, I8 to I64, F16, BF16, F32 or F64", ErrFormat, e.DType)
	case len(e.Shape) == 0:
		return 0, Spec{}, fmt.Errorf("%w: a scalar; want a tensor whose first axis counts samples", ErrFormat)
	case e.Offsets[0] == e.Offsets[1]:
		return 0, Spec{}, fmt.Errorf("%w: a tensor of shape %d", ErrEmpty, e.Shape)
	case e.Offsets[1]-e.Offsets[0] > math.MaxInt:
		return 0, Spec{}, fmt.Errorf("%w: a tensor of shape %d", ErrTooLarge, e.Shape)
	}
	spec := Spec{DType: t}
	for _, d := range e.Shape[1:] {
		spec.Shape = append(spec.Shape, int(d))
	}
	return int(e.Shape[0]), spec, nil
}

// labels reads a tensor of n labels.
func (e tensorEntry) labels(f *os.File, start int64, n int) ([]int32, error) {
	have, spec, err := e.samples()
	if err != nil {
		return nil, err
	}
	if have != n || spec.Bytes() != spec.DType.Size() {
		return nil, fmt.Errorf("%w: labels of shape %d for %d samples", ErrArgument, e.Shape, n)
	}
	return readLabels(f, start+e.Offsets[0], n, spec.DType)
}

// listed quotes the first names of a list for a message.
func listed(names []string) string {
	const most = 8
	var quoted []string
	for _, name := range first(names, most) {
		quoted = append(quoted, fmt.Sprintf("%.80q", name))
	}
	s := strings.Join(quoted, ", ")
	switch more := len(names) - most; {
	case len(names) == 0:
		return "none"
	case more > 0:
		return fmt.Sprintf("%s and %d more", s, more)
	}
	return s
}
