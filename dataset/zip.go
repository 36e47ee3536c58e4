package dataset

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Zip is datasets of one length and one element type, side by side. It is a
// [Ragged] one where samples of a part differ in length.
type Zip struct {
	parts []Dataset
	spec  Spec
	sizes []int // bytes of a sample of each part, the longest
}

// NewZip makes a dataset whose sample i is the samples i of all parts, one
// behind the other as one row: parts of {2, 3} f32 and {4} f32 give {10} f32, parts of {<=5, 2} and
// {1} samples of up to 11 numbers.
// Name and label are those of the first part. The parts stay the caller's,
// who closes them when the whole is no longer in use. It fails with
// [ErrEmpty] for no parts and with [ErrArgument] for different lengths or
// element types.
func NewZip(parts ...Dataset) (*Zip, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("zip: %w: no parts", ErrEmpty)
	}
	d := &Zip{parts: slices.Clone(parts)}
	first, bytes := parts[0].Spec().DType, 0
	for i, p := range parts {
		spec := p.Spec()
		d.spec.Ragged = d.spec.Ragged || spec.Ragged
		spec.Ragged = false
		size, err := checkSpec(spec)
		switch {
		case err != nil:
			return nil, fmt.Errorf("zip: part %d: %w", i, err)
		case p.Len() != parts[0].Len():
			return nil, fmt.Errorf("zip: %w: part %d has %d samples, part 0 %d", ErrArgument, i, p.Len(), parts[0].Len())
		case spec.DType != first:
			return nil, fmt.Errorf("zip: %w: elements of part %d are %v, of part 0 %v", ErrArgument, i, spec.DType, first)
		case size > math.MaxInt-bytes:
			return nil, fmt.Errorf("zip: %w: samples of part %d have %d bytes, those before %d", ErrTooLarge, i, size, bytes)
		}
		bytes += size
		d.sizes = append(d.sizes, size)
	}
	d.spec.Shape, d.spec.DType = []int{bytes / first.Size()}, first
	if d.spec.Ragged {
		d.spec.Shape[0] = 1
		for i := range d.Len() {
			d.spec.Shape[0] = max(d.spec.Shape[0], d.Length(i))
		}
	}
	return d, nil
}

// Length implements [Ragged]: the numbers of sample i.
func (d *Zip) Length(i int) int {
	if !d.spec.Ragged {
		return d.spec.Shape[0]
	}
	bytes := 0
	for _, p := range d.parts {
		bytes += SampleBytes(p, i)
	}
	return bytes / d.spec.DType.Size()
}

// Len implements [Dataset].
func (d *Zip) Len() int { return d.parts[0].Len() }

// Spec implements [Dataset]: one axis, of all elements of the parts.
func (d *Zip) Spec() Spec {
	return d.spec.Clone()
}

// Name implements [Dataset]: that of the first part.
func (d *Zip) Name(i int) string { return d.parts[0].Name(i) }

// Label implements [Dataset]: that of the first part.
func (d *Zip) Label(i int) int32 { return d.parts[0].Label(i) }

// Classes returns the names of the classes of the first part, nil if it has none.
func (d *Zip) Classes() []string { return Classes(d.parts[0]) }

// NewReader implements [Dataset].
func (d *Zip) NewReader() (Reader, error) {
	readers, err := openReaders(d.parts)
	if err != nil {
		return nil, err
	}
	return &zipReader{d, readers}, nil
}

type zipReader struct {
	zip     *Zip
	readers readers
}

// Read implements [Reader].
func (r *zipReader) Read(ctx context.Context, v Visit, dst []byte) error {
	d := r.zip
	if err := CheckIndex(d, v.Index); err != nil {
		return err
	}
	if err := CheckRead(d, v.Index, dst, d.Length(v.Index)*d.spec.DType.Size()); err != nil {
		return err
	}
	for part, size := range d.sizes {
		if d.spec.Ragged {
			size = SampleBytes(d.parts[part], v.Index)
		}
		if err := r.readers[part].Read(ctx, v, dst[:size:size]); err != nil {
			return err
		}
		dst = dst[size:]
	}
	return nil
}

// Close implements [Reader].
func (r *zipReader) Close() error { return r.readers.Close() }
