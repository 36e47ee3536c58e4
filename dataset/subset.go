package dataset

import (
	"context"
	"fmt"
	"slices"
)

// Subset is some samples of a dataset, under new numbers.
type Subset struct {
	dataset Dataset
	spec    Spec
	indices []int
}

// NewSubset makes a dataset whose sample i is sample indices[i] of d. Indices
// may be in any order and occur more than once; they are copied. d stays the
// caller's, who closes it when the subset is no longer in use. It fails with
// [ErrEmpty] for no indices and with [ErrArgument] for one that d does not
// have.
func NewSubset(d Dataset, indices []int) (*Subset, error) {
	if len(indices) == 0 {
		return nil, fmt.Errorf("subset: %w: no indices", ErrEmpty)
	}
	n := d.Len()
	for at, i := range indices {
		if i < 0 || i >= n {
			return nil, fmt.Errorf("subset: %w: index %d is sample %d of %d", ErrArgument, at, i, n)
		}
	}
	return newSubset(d, slices.Clone(indices)), nil
}

// newSubset works out the spec: where samples differ in length, the subset's
// longest may be shorter than the whole's.
func newSubset(d Dataset, indices []int) *Subset {
	s := &Subset{d, d.Spec().Clone(), indices}
	if s.spec.Ragged {
		s.spec.Shape[0] = 1
		for _, i := range indices {
			s.spec.Shape[0] = max(s.spec.Shape[0], Length(d, i))
		}
	}
	return s
}

// Len implements [Dataset].
func (d *Subset) Len() int { return len(d.indices) }

// Spec implements [Dataset].
func (d *Subset) Spec() Spec { return d.spec.Clone() }

// Length implements [Ragged].
func (d *Subset) Length(i int) int { return Length(d.dataset, d.indices[i]) }

// Name implements [Dataset]: the name in the whole dataset.
func (d *Subset) Name(i int) string { return d.dataset.Name(d.indices[i]) }

// Label implements [Dataset].
func (d *Subset) Label(i int) int32 { return d.dataset.Label(d.indices[i]) }

// Unwrap returns the dataset that the samples come from.
func (d *Subset) Unwrap() []Dataset { return []Dataset{d.dataset} }

// Classes returns the names of the classes of that dataset, nil if it has none.
func (d *Subset) Classes() []string { return Classes(d.dataset) }

// Targets returns the targets of the samples, nil if there are none.
func (d *Subset) Targets() Dataset {
	if whole := Targets(d.dataset); whole != nil {
		return newSubset(whole, d.indices)
	}
	return nil
}

// NewReader implements [Dataset].
func (d *Subset) NewReader() (Reader, error) {
	r, err := d.dataset.NewReader()
	if err != nil {
		return nil, err
	}
	return &subsetReader{d, r}, nil
}

type subsetReader struct {
	subset *Subset
	reader Reader
}

// Read implements [Reader].
func (r *subsetReader) Read(ctx context.Context, v Visit, dst []byte) error {
	if err := CheckIndex(r.subset, v.Index); err != nil {
		return err
	}
	v.Index = r.subset.indices[v.Index]
	return r.reader.Read(ctx, v, dst)
}

// Close implements [Reader].
func (r *subsetReader) Close() error { return r.reader.Close() }
