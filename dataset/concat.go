package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Concat is datasets of one spec, one behind the other. Where their samples
// differ in length, their longest may be of different lengths too.
type Concat struct {
	parts []Dataset
	spec  Spec
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
		s := p.Spec()
		if i == 0 {
			d.spec = s.Clone()
		}
		if !d.spec.alike(s) {
			return nil, fmt.Errorf("concat: %w: samples of part %d are %v, of part 0 %v", ErrArgument, i, s, parts[0].Spec())
		}
		if s.Ragged {
			d.spec.Shape[0] = max(d.spec.Shape[0], s.Shape[0])
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
func (d *Concat) Spec() Spec { return d.spec.Clone() }

// Length implements [Ragged].
func (d *Concat) Length(i int) int {
	part, number := d.part(i)
	return Length(d.parts[part], number)
}

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

// Unwrap returns the parts.
func (d *Concat) Unwrap() []Dataset { return slices.Clone(d.parts) }

// Classes returns the names of the classes, where all parts have the same ones;
// else nil.
func (d *Concat) Classes() []string {
	names := Classes(d.parts[0])
	for _, p := range d.parts[1:] {
		if !slices.Equal(names, Classes(p)) {
			return nil
		}
	}
	return names
}

// Targets returns the targets of all parts, nil if one of them has none or other
// ones.
func (d *Concat) Targets() Dataset {
	var all []Dataset
	for _, p := range d.parts {
		t := Targets(p)
		if t == nil {
			return nil
		}
		all = append(all, t)
	}
	whole, err := NewConcat(all...)
	if err != nil {
		return nil
	}
	return whole
}

// NewReader implements [Dataset].
func (d *Concat) NewReader() (Reader, error) {
	readers, err := openReaders(d.parts)
	if err != nil {
		return nil, err
	}
	return &concatReader{d, readers}, nil
}

type concatReader struct {
	concat  *Concat
	readers readers
}

// Read implements [Reader].
func (r *concatReader) Read(ctx context.Context, v Visit, dst []byte) error {
	if err := CheckIndex(r.concat, v.Index); err != nil {
		return err
	}
	var part int
	part, v.Index = r.concat.part(v.Index)
	return r.readers[part].Read(ctx, v, dst)
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
			return nil, joinClose(err, list)
		}
		list = append(list, r)
	}
	return list, nil
}

// joinClose closes the readers that were opened before an error.
func joinClose(err error, l readers) error { return errors.Join(err, l.Close()) }

func (l readers) Close() error {
	var errs []error
	for _, r := range l {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
