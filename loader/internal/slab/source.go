package slab

import (
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
)

// Source is a dataset that batches are made of: that of the samples, or one of
// the targets that go with them.
type Source struct {
	Dataset  dataset.Dataset
	Spec     dataset.Spec // of a sample as read
	RowBytes int          // of a row as read
	Rows     int          // of the longest sample
	Pad      Padding
}

// NewSource looks at a dataset.
func NewSource(ds dataset.Dataset) Source {
	s := Source{Dataset: ds, Spec: ds.Spec(), Rows: 1}
	s.RowBytes = s.Spec.RowBytes()
	if len(s.Spec.Shape) > 0 {
		s.Rows = s.Spec.Shape[0]
	}
	return s
}

// Check fails if no batch can be made of the dataset.
func (s *Source) Check() error {
	if s.Dataset.Len() <= 0 || s.Spec.Bytes() <= 0 {
		return fmt.Errorf("%w: the dataset has %d samples of %d bytes", device.ErrArgument, s.Dataset.Len(), s.Spec.Bytes())
	}
	if _, ok := dataset.As[dataset.Ragged](s.Dataset); s.Spec.Ragged && !ok {
		return fmt.Errorf("%w: samples of %v differ in length, but the dataset does not say how long each is", device.ErrArgument, s.Spec)
	}
	return nil
}

// checkBatch fails for batches that no memory could hold. The sources of a
// batch share the room, so that many of them do not overflow an int together.
func (s *Source) checkBatch(samples, sources int) error {
	if s.Rows > math.MaxInt/16/sources/s.RowBytes/samples {
		return fmt.Errorf("%w: a batch of %d samples of %d bytes", device.ErrArgument, samples, s.Rows*s.RowBytes)
	}
	return nil
}

// Shape is that of n samples of so many rows.
func (s *Source) Shape(n, rows int) []int {
	if s.Spec.Ragged {
		return append([]int{n, rows}, s.Spec.Shape[1:]...)
	}
	return append([]int{n}, s.Spec.Shape...)
}

// NewTargets looks at the targets of a dataset of so many samples.
func NewTargets(list []dataset.Dataset, samples int) ([]Source, error) {
	var targets []Source
	for k, ds := range list {
		if ds == nil {
			return nil, fmt.Errorf("target %d: %w: no dataset", k, device.ErrArgument)
		}
		t := NewSource(ds)
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("target %d: %w", k, err)
		}
		if n := ds.Len(); n != samples {
			return nil, fmt.Errorf("target %d: %w: it has %d samples, the dataset has %d", k, device.ErrArgument, n, samples)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// TargetError is a target that could not be read.
type TargetError struct {
	Target int
	Err    error
}

func (e *TargetError) Error() string { return fmt.Sprintf("target %d: %v", e.Target, e.Err) }

// Unwrap returns the reason.
func (e *TargetError) Unwrap() error { return e.Err }
