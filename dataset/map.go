package dataset

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/internal/panicked"
)

// MapFunc makes sample v.Index of a [Map]: it reads src and writes all of dst.
// Both are valid during the call only. What is random draws from v.Key, so
// that the order of workers changes nothing. A function that may take long
// returns when ctx ends. Workers call it at the same time.
type MapFunc func(ctx context.Context, v Visit, dst, src []byte) error

// Map is a dataset whose samples go through a function.
type Map struct {
	dataset Dataset
	spec    Spec
	f       MapFunc
}

// NewMap makes a dataset of the samples of d as f changes them; spec is the
// form of what f writes. Where that is ragged, sample i has as many rows as it
// has in d, and Shape[0] is not looked at. An error of f is wrapped with the sample's name; a
// panic in f becomes an error that wraps [ErrPanic], names the sample and
// holds the stack. d stays the caller's, who closes it when the map is no
// longer in use. It fails with [ErrArgument] for an impossible spec or no
// function.
func NewMap(d Dataset, spec Spec, f MapFunc) (*Map, error) {
	spec = spec.Clone()
	checked := spec
	if spec.Ragged && len(spec.Shape) > 0 {
		spec.Shape[0] = max(longest(d), 1)
		checked.Ragged = false
	}
	if _, err := checkSpec(checked); err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	if f == nil {
		return nil, fmt.Errorf("map: %w: no function", ErrArgument)
	}
	return &Map{d, spec, f}, nil
}

// longest returns the largest length of a sample.
func longest(d Dataset) int {
	if s := d.Spec(); len(s.Shape) > 0 {
		return s.Shape[0]
	}
	return 1
}

// NewMapOf is [NewMap] for a function of numbers rather than bytes: D is the type
// of what it writes, S that of the samples of d. The type of the spec may be left
// out. It fails with [ErrArgument] too where d has samples of another type.
func NewMapOf[D, S Number](d Dataset, spec Spec, f func(ctx context.Context, v Visit, dst []D, src []S) error) (*Map, error) {
	_, to := Bytes([]D(nil))
	_, from := Bytes([]S(nil))
	spec.DType = cmp.Or(spec.DType, to)
	switch have := d.Spec().DType; {
	case spec.DType != to:
		return nil, fmt.Errorf("map: %w: a function that writes %v, and a spec of %v", ErrArgument, to, spec)
	case have != from:
		return nil, fmt.Errorf("map: %w: a function that reads %v, and samples of %v", ErrArgument, from, d.Spec())
	case f == nil:
		return nil, fmt.Errorf("map: %w: no function", ErrArgument)
	}
	return NewMap(d, spec, func(ctx context.Context, v Visit, dst, src []byte) error {
		to, err := Elements[D](dst)
		if err != nil {
			return err
		}
		from, err := Elements[S](src)
		if err != nil {
			return err
		}
		return f(ctx, v, to, from)
	})
}

// Len implements [Dataset].
func (d *Map) Len() int { return d.dataset.Len() }

// Spec implements [Dataset].
func (d *Map) Spec() Spec {
	return d.spec.Clone()
}

// Length implements [Ragged].
func (d *Map) Length(i int) int {
	if d.spec.Ragged {
		return Length(d.dataset, i)
	}
	if len(d.spec.Shape) > 0 {
		return d.spec.Shape[0]
	}
	return 1
}

// Name implements [Dataset].
func (d *Map) Name(i int) string { return d.dataset.Name(i) }

// Label implements [Dataset].
func (d *Map) Label(i int) int32 { return d.dataset.Label(i) }

// Unwrap returns the dataset that the samples come from.
func (d *Map) Unwrap() []Dataset { return []Dataset{d.dataset} }

// Classes returns the names of the classes of that dataset, nil if it has none.
func (d *Map) Classes() []string { return Classes(d.dataset) }

// Targets returns the targets of that dataset, nil if it has none.
func (d *Map) Targets() Dataset { return Targets(d.dataset) }

// NewReader implements [Dataset].
func (d *Map) NewReader() (Reader, error) {
	r, err := d.dataset.NewReader()
	if err != nil {
		return nil, err
	}
	spec := d.dataset.Spec()
	m := &mapReader{mapped: d, reader: r, src: make([]byte, spec.Bytes()), bytes: d.spec.Bytes()}
	if spec.Ragged {
		m.row = spec.RowBytes()
	}
	if d.spec.Ragged {
		m.dstRow = d.spec.RowBytes()
	}
	return m, nil
}

type mapReader struct {
	mapped *Map
	reader Reader
	src    []byte
	row    int // bytes of a row of src where samples differ in length; else 0
	dstRow int // likewise of what the function writes
	bytes  int
}

// Read implements [Reader].
func (r *mapReader) Read(ctx context.Context, v Visit, dst []byte) error {
	if err := CheckIndex(r.mapped, v.Index); err != nil {
		return err
	}
	bytes := r.bytes
	if r.dstRow > 0 {
		bytes = r.dstRow * r.mapped.Length(v.Index)
	}
	if err := CheckRead(r.mapped, v.Index, dst, bytes); err != nil {
		return err
	}
	src := r.src
	if r.row > 0 {
		src = src[:r.row*Length(r.mapped.dataset, v.Index)]
	}
	if err := r.reader.Read(ctx, v, src); err != nil {
		return err
	}
	if err := r.mapped.call(ctx, v, dst, src); err != nil {
		return panicked.WithStack(fmt.Errorf("%s: %w", r.mapped.Name(v.Index), err))
	}
	return nil
}

// call calls the function and makes an error of its panic.
func (d *Map) call(ctx context.Context, v Visit, dst, src []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError{fmt.Errorf("the function of a map: %w", panicked.Error(p))}
		}
	}()
	return d.f(ctx, v, dst[:len(dst):len(dst)], src)
}

// panicError is an [ErrPanic].
type panicError struct{ error }

func (e panicError) Unwrap() error { return e.error }

func (panicError) Is(target error) bool { return target == ErrPanic }

// Close implements [Reader].
func (r *mapReader) Close() error { return r.reader.Close() }
