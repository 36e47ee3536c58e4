package dataset

import (
	"context"
	"fmt"
	"io/fs"
)

// Memory is samples that are already in host memory, back to back.
type Memory struct {
	array
	data []byte
}

// MemoryOptions configures [NewMemory]. The zero value works.
type MemoryOptions struct {
	// Labels holds the class of every sample. Default nil: all are -1.
	Labels []int32
	// Name stands for the data in messages. Default "memory".
	Name string
}

// NewMemory makes a dataset of data, whose length is a multiple of the bytes
// of one sample. The data and the labels are not copied: the caller leaves
// them as they are while the dataset is in use.
//
// It fails with [ErrEmpty] when there is no data, or with [ErrArgument] for an
// impossible spec and for lengths that do not agree.
func NewMemory(data []byte, spec Spec, opts MemoryOptions) (*Memory, error) {
	if opts.Name == "" {
		opts.Name = "memory"
	}
	sample, err := checkSpec(spec)
	switch {
	case err != nil:
	case len(data) == 0:
		err = ErrEmpty
	case len(data)%sample != 0:
		err = fmt.Errorf("%w: %d bytes are not a whole number of samples of %d bytes (%v)", ErrArgument, len(data), sample, spec)
	default:
		err = checkLabels(opts.Labels, len(data)/sample)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opts.Name, err)
	}
	return &Memory{array{opts.Name, opts.Labels, spec.Clone(), len(data) / sample, sample}, data}, nil
}

// NewMemoryOf is [NewMemory] for a slice of numbers. The shape is that of one
// sample, nil for scalars; the element type is T.
func NewMemoryOf[T Number](data []T, shape []int, opts MemoryOptions) (*Memory, error) {
	bytes, d := Bytes(data)
	return NewMemory(bytes, Spec{Shape: shape, DType: d}, opts)
}

// NewReader implements [Dataset].
func (d *Memory) NewReader() (Reader, error) { return &memoryReader{memory: d}, nil }

func (d *Memory) bytes(i int) []byte { return d.data[i*d.sample:][:d.sample] }

// memoryReader reads what has all of its samples in memory.
type memoryReader struct {
	memory interface {
		Dataset
		bytes(i int) []byte // of sample i
	}
	closed bool
}

// Read implements [Reader].
func (r *memoryReader) Read(_ context.Context, v Visit, dst []byte) error {
	d := r.memory
	if err := CheckIndex(d, v.Index); err != nil {
		return err
	}
	sample := d.bytes(v.Index)
	if err := CheckRead(d, v.Index, dst, len(sample)); err != nil {
		return err
	}
	if r.closed {
		return fmt.Errorf("%s: %w", d.Name(v.Index), fs.ErrClosed)
	}
	start := v.Timing.Start()
	copy(dst, sample)
	v.Timing.AddRead(start)
	return nil
}

// Close implements [Reader].
func (r *memoryReader) Close() error {
	r.closed = true
	return nil
}
