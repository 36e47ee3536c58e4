package dataset

import (
	"fmt"
	"slices"
)

// MemoryRagged is samples in host memory that differ in the length of axis 0:
// sentences of tokens, clouds of points.
type MemoryRagged struct {
	array   // sample is the bytes of a row
	data    []byte
	offsets []int64 // in rows; one more than samples
}

// NewMemoryRagged makes a dataset of samples of different lengths that are
// back to back in data. Sample i is rows offsets[i] to offsets[i+1], where a
// row is one element of axis 0: n samples have n+1 offsets, from 0 to the
// number of rows, as in PyTorch's jagged tensors and in the cu_seqlens of
// attention kernels. Samples may be empty. Of the spec the row counts:
// Shape[1:] and DType; Shape[0] becomes the length of the longest sample.
// Data, offsets and labels are not copied: the caller leaves them as they are
// while the dataset is in use.
//
// It fails with [ErrEmpty] when there are no samples or all are empty, or with
// [ErrArgument] for an impossible spec, for offsets that fall or do not cover
// the data, and for lengths that do not agree.
func NewMemoryRagged(data []byte, spec Spec, offsets []int64, opts MemoryOptions) (*MemoryRagged, error) {
	if opts.Name == "" {
		opts.Name = "memory"
	}
	d, err := newMemoryRagged(data, spec.Clone(), offsets, opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opts.Name, err)
	}
	return d, nil
}

func newMemoryRagged(data []byte, spec Spec, offsets []int64, opts MemoryOptions) (*MemoryRagged, error) {
	if len(spec.Shape) == 0 {
		return nil, fmt.Errorf("%w: a scalar has no length; want a shape whose axis 0 differs", ErrArgument)
	}
	spec.Ragged, spec.Shape[0] = false, 1
	row, err := checkSpec(spec)
	if err != nil {
		return nil, err
	}
	spec.Ragged = true
	rows, n := int64(len(data)/row), len(offsets)-1
	switch {
	case len(data)%row != 0:
		return nil, fmt.Errorf("%w: %d bytes are not a whole number of rows of %d bytes", ErrArgument, len(data), row)
	case n < 1 || rows == 0:
		return nil, fmt.Errorf("%w: %d rows, %d offsets", ErrEmpty, rows, len(offsets))
	case offsets[0] != 0 || offsets[n] != rows:
		return nil, fmt.Errorf("%w: offsets from %d to %d, want 0 to %d, the number of rows", ErrArgument, offsets[0], offsets[n], rows)
	}
	for i := range n {
		length := offsets[i+1] - offsets[i]
		if length < 0 {
			return nil, fmt.Errorf("%w: offset %d is %d, the one before it %d", ErrArgument, i+1, offsets[i+1], offsets[i])
		}
		spec.Shape[0] = max(spec.Shape[0], int(length))
	}
	if err := checkLabels(opts.Labels, n); err != nil {
		return nil, err
	}
	return &MemoryRagged{array{opts.Name, opts.Labels, spec, n, row}, data, offsets}, nil
}

// NewMemoryRaggedOf is [NewMemoryRagged] for a slice of numbers. The shape is
// that of one row, nil where rows are single numbers such as tokens; the
// element type is T.
func NewMemoryRaggedOf[T Number](data []T, row []int, offsets []int64, opts MemoryOptions) (*MemoryRagged, error) {
	bytes, d := Bytes(data)
	return NewMemoryRagged(bytes, Spec{Shape: slices.Insert(slices.Clone(row), 0, 1), DType: d}, offsets, opts)
}

// Length implements [Ragged].
func (d *MemoryRagged) Length(i int) int { return int(d.offsets[i+1] - d.offsets[i]) }

// NewReader implements [Dataset].
func (d *MemoryRagged) NewReader() (Reader, error) { return &memoryReader{memory: d}, nil }

func (d *MemoryRagged) bytes(i int) []byte {
	row := int64(d.sample)
	return d.data[d.offsets[i]*row : d.offsets[i+1]*row]
}
