package batches

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/train"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/step/graph"
	steptrain "github.com/pinion-gpu/pinion/step/train"
)

// BucketOptions say which lengths batches get.
type BucketOptions struct {
	// Lengths are those that batches have behind [NewBuckets], ascending. GoMLX's trainer
	// compiles a step for each when a batch has it first, and keeps 32 of them.
	Lengths []int

	// Axis is the axis whose length differs. Default: 1, behind that of the batch.
	Axis int

	// Inputs and Labels are which tensors of a batch have that axis: they are filled up
	// with zeros. Default: the first input, and no labels.
	Inputs, Labels []int

	// MaskLabels adds the mask to the labels, too, behind the others: GoMLX's losses then
	// leave out what was filled in.
	MaskLabels bool
}

// Buckets is a dataset whose batches have a few lengths.
type Buckets struct {
	inner train.Dataset
	opts  BucketOptions

	mu    sync.Mutex
	stats BucketStats
}

// BucketStats count what became of batches.
type BucketStats struct {
	Batches          int
	Wanted, Computed int64 // elements along the axis, as they were and with what was filled in
}

var _ train.Dataset = (*Buckets)(nil)

// NewBuckets makes a dataset of one whose batches have different lengths, such as texts.
// A graph is for one shape, and compiling one for each length takes time and memory: here
// lengths are rounded up to some, and tensors are filled up. Behind the inputs of a batch
// comes a mask, a bool for each of its rows and places, which is false where something was
// filled in: the model has to leave that out. GoMLX's attention layers do, with WithMask.
//
// Steps for all lengths share the memory between their parameters and results: the device
// holds what the longest needs, once.
//
// It fails with [gomlx.ErrArgument] if the options cannot be right, and iterations do if a
// batch is longer than the longest bucket, or lacks a tensor or the axis. Data that are on
// the device are copied to the host and back: they are better filled up where they are read.
func NewBuckets(inner train.Dataset, o BucketOptions) (*Buckets, error) {
	if o.Axis == 0 {
		o.Axis = 1
	}
	if o.Inputs == nil {
		o.Inputs = []int{0}
	}
	bad := len(o.Lengths) == 0 || o.Axis < 1 || len(o.Inputs) == 0
	for i, n := range o.Lengths {
		bad = bad || n < 1 || i > 0 && n <= o.Lengths[i-1]
	}
	for _, i := range slices.Concat(o.Inputs, o.Labels) {
		bad = bad || i < 0
	}
	if bad {
		return nil, fmt.Errorf("batches: %w: buckets of lengths %v along axis %d of inputs %v and labels %v: lengths ascend, the batch is axis 0, and nothing is negative", gomlx.ErrArgument, o.Lengths, o.Axis, o.Inputs, o.Labels)
	}
	return &Buckets{inner: inner, opts: o}, nil
}

// Name implements [train.Dataset].
func (b *Buckets) Name() string { return b.inner.Name() }

// Stats returns the counts since the dataset was made.
func (b *Buckets) Stats() BucketStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// Iter implements [train.Dataset].
func (b *Buckets) Iter() iter.Seq2[train.Batch, error] {
	return func(yield func(train.Batch, error) bool) {
		for batch, err := range b.inner.Iter() {
			if err == nil {
				batch, err = b.fill(batch)
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// fill rounds the length of a batch up. Tensors that are filled up are new ones.
func (b *Buckets) fill(batch train.Batch) (_ train.Batch, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, batch.Finalize())
		}
	}()
	rows, length := 0, -1
	for _, list := range []struct {
		what    string
		which   []int
		tensors []*tensors.Tensor
	}{{"input", b.opts.Inputs, batch.Inputs}, {"label", b.opts.Labels, batch.Labels}} {
		for _, i := range list.which {
			if i >= len(list.tensors) {
				return batch, fmt.Errorf("batches: %w: there is no %s %d to fill up, of %d", gomlx.ErrArgument, list.what, i, len(list.tensors))
			}
			s := list.tensors[i].Shape()
			if s.Rank() <= b.opts.Axis || length >= 0 && s.Dimensions[b.opts.Axis] != length {
				return batch, fmt.Errorf("batches: %w: %s %d is %v; axis %d is to have the %d elements of the first input", gomlx.ErrArgument, list.what, i, s, b.opts.Axis, length)
			}
			rows, length = s.Dimensions[0], s.Dimensions[b.opts.Axis]
		}
	}
	k, _ := slices.BinarySearch(b.opts.Lengths, length)
	if k == len(b.opts.Lengths) {
		return batch, fmt.Errorf("batches: %w: a batch of length %d; the longest bucket has %d", gomlx.ErrArgument, length, b.opts.Lengths[k-1])
	}
	size := b.opts.Lengths[k]
	for _, i := range b.opts.Inputs {
		if err := b.pad(&batch.Inputs[i], size); err != nil {
			return batch, err
		}
	}
	for _, i := range b.opts.Labels {
		if err := b.pad(&batch.Labels[i], size); err != nil {
			return batch, err
		}
	}
	mask, err := steptrain.Mask([]int{rows, length}, []int{rows, size})
	if err != nil {
		return batch, err
	}
	real := make([]bool, len(mask))
	for i, m := range mask {
		real[i] = m != 0
	}
	batch.Inputs = append(slices.Clip(batch.Inputs), tensors.FromFlatDataAndDimensions(real, rows, size))
	if b.opts.MaskLabels {
		batch.Labels = append(slices.Clip(batch.Labels), tensors.FromFlatDataAndDimensions(real, rows, size))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.Batches++
	b.stats.Wanted += int64(rows * length)
	b.stats.Computed += int64(rows * size)
	return batch, nil
}

// pad replaces a tensor by one that is as long as a bucket.
func (b *Buckets) pad(at **tensors.Tensor, size int) error {
	t := *at
	s := t.Shape()
	if s.Dimensions[b.opts.Axis] == size {
		return nil
	}
	element, ok := elements[s.DType]
	if !ok {
		return fmt.Errorf("batches: %w: elements of type %v are not filled up", gomlx.ErrArgument, s.DType)
	}
	dims := slices.Clone(s.Dimensions)
	dims[b.opts.Axis] = size
	var filled []byte
	var padErr error
	err := t.ConstBytes(func(data []byte) {
		filled, padErr = steptrain.Pad(data, graph.MakeShape(element, s.Dimensions...), dims)
	})
	if err = errors.Join(err, padErr); err != nil {
		return err
	}
	out := tensors.FromShape(shapes.Make(s.DType, dims...))
	if err := out.MutableBytes(func(data []byte) { copy(data, filled) }); err != nil {
		return err
	}
	*at = out
	return t.FinalizeAll()
}

// elements are types as Pinion names them.
var elements = func() map[dtypes.DType]dtype.DType {
	m := map[dtypes.DType]dtype.DType{}
	for t, name := range types {
		m[name] = t
	}
	return m
}()
