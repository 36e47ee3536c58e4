package loader

import (
	"errors"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
)

// source is a dataset that batches are made of: that of the samples, or one of
// the targets that go with them.
type source struct {
	ds       dataset.Dataset
	spec     dataset.Spec // of a sample as read
	rowBytes int          // of a row as read
	rows     int          // of the longest sample
	pad      padding
}

func newSource(ds dataset.Dataset) source {
	s := source{ds: ds, spec: ds.Spec(), rows: 1}
	s.rowBytes = s.spec.RowBytes()
	if len(s.spec.Shape) > 0 {
		s.rows = s.spec.Shape[0]
	}
	return s
}

// check fails for what no batch can be made of.
func (s *source) check() error {
	if s.ds.Len() <= 0 || s.spec.Bytes() <= 0 {
		return fmt.Errorf("%w: the dataset has %d samples of %d bytes", device.ErrArgument, s.ds.Len(), s.spec.Bytes())
	}
	if _, ok := s.ds.(dataset.Ragged); s.spec.Ragged && !ok {
		return fmt.Errorf("%w: samples of %v differ in length, but the dataset does not tell how", device.ErrArgument, s.spec)
	}
	return nil
}

// checkBatch fails for batches that nothing could hold. Targets have a part of
// the room: many of them do not add up to more than can be counted to.
func (s *source) checkBatch(samples, parts int) error {
	if s.rows > math.MaxInt/16/parts/s.rowBytes/samples {
		return fmt.Errorf("%w: a batch of %d samples of %d bytes", device.ErrArgument, samples, s.rows*s.rowBytes)
	}
	return nil
}

// shape is that of n samples of so many rows.
func (s *source) shape(n, rows int) []int {
	if s.spec.Ragged {
		return append([]int{n, rows}, s.spec.Shape[1:]...)
	}
	return append([]int{n}, s.spec.Shape...)
}

// newTargets takes the targets of a dataset.
func newTargets(list []dataset.Dataset, samples int) ([]source, error) {
	var targets []source
	for k, ds := range list {
		if ds == nil {
			return nil, fmt.Errorf("loader: target %d: %w: no dataset", k, device.ErrArgument)
		}
		t := newSource(ds)
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("loader: target %d: %w", k, err)
		}
		if n := ds.Len(); n != samples {
			return nil, fmt.Errorf("loader: target %d: %w: it has %d samples, the dataset has %d", k, device.ErrArgument, n, samples)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// targetError is a target that could not be read.
type targetError struct {
	target int
	err    error
}

func (e *targetError) Error() string { return fmt.Sprintf("target %d: %v", e.target, e.err) }
func (e *targetError) Unwrap() error { return e.err }

// named is the dataset that an error is about.
func (l *Loader) named(err error) dataset.Dataset {
	var t *targetError
	if errors.As(err, &t) {
		return l.targets[t.target].ds
	}
	return l.ds
}
