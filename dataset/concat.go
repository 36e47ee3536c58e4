package dataset

import (
	"errors"
	"fmt"
	"slices"
)

// Concat is datasets of one spec, one behind the other.
type Concat struct {
	parts []Dataset
	ends  []int // number behind the last sample of each part
}

// NewConcat puts datasets of one spec behind each other. Labels stay as they
// are: that they mean the same in every part is the caller's business. The
// parts stay the caller's, who closes them when the whole is no longer in
// use. It fails with [ErrEmpty] for no parts and with [ErrArgument] for
// different specs.
func NewConcat(parts ...Dataset) (*Concat, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("concat: %w: no parts", ErrEmpty)
	}
	d := &Concat{parts: slices.Clone(parts)}
	end := 0
	for i, p := range parts {
		if first, s := parts[0].Spec(), p.Spec(); s.DType != first.DType || !slices.Equal(s.Shape, first.Shape) {
			return nil, fmt.Errorf("concat: %w: samples of part %d are %v, of part 0 %v", ErrArgument, i, s, first)
		}
		end += p.Len()
		d.ends = append(d.ends, end)
	}
	return d, nil
}

// part returns the part that sample i is in, and its number there.
func (d *Concat) part(i int) (part, number int) {
	part, _ = slices.BinarySearch(d.ends, i+1)
	if part > 0 {
		i -= d.ends[part-1]
	}
	return part, i
}

// Len implements [Dataset].
func (d *Concat) Len() int { return d.ends[len(d.ends)-1] }

// Spec implements [Dataset].
func (d *Concat) Spec() Spec { return d.parts[0].Spec() }

// Name implements [Dataset]: the name in its part.
func (d *Concat) Name(i int) string {
	part, number := d.part(i)
	return d.parts[part].Name(number)
}

// Label implements [Dataset]: the label in its part.
func (d *Concat) Label(i int) int32 {
	part, number := d.part(i)
	return d.parts[part].Label(number)
}

// NewReader implements [Dataset].
func (d *Concat) NewReader() (Reader, error) {
	readers, err := openReaders(d.parts)
	if err != nil {
		return nil, err
	}
	return &concatReader{d, readers, d.Spec().Bytes()}, nil
}

type concatReader struct {
	concat  *Concat
	readers readers
	bytes   int
}

// Read implements [Reader].
func (r *concatReader) Read(i int, dst []byte, t *Timing) error {
	if err := checkRead(r.concat, i, dst, r.bytes); err != nil {
		return err
	}
	part, number := r.concat.part(i)
	return r.readers[part].Read(number, dst, t)
}

// Close implements [Reader].
func (r *concatReader) Close() error { return r.readers.Close() }

// readers is a reader of each of several datasets.
type readers []Reader

func openReaders(parts []Dataset) (readers, error) {
	var list readers
	for _, p := range parts {
		r, err := p.NewReader()
		if err != nil {
			return nil, errors.Join(err, list.Close())
		}
		list = append(list, r)
	}
	return list, nil
}

func (l readers) Close() error {
	var errs []error
	for _, r := range l {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
