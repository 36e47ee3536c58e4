package dataset

import (
	"fmt"
	"runtime/debug"
	"slices"
)

// MapFunc makes sample i of a [Map]: it reads src and writes all of dst. Both
// are valid during the call only. Workers call it at the same time.
type MapFunc func(i int, dst, src []byte) error

// Map is a dataset whose samples go through a function.
type Map struct {
	dataset Dataset
	spec    Spec
	f       MapFunc
}

// NewMap makes a dataset of the samples of d as f changes them; spec is the
// form of what f writes. An error of f is wrapped with the sample's name; a
// panic in f becomes an error that wraps [ErrPanic], names the sample and
// holds the stack. d stays the caller's, who closes it when the map is no
// longer in use. It fails with [ErrArgument] for an impossible spec or no
// function.
func NewMap(d Dataset, spec Spec, f MapFunc) (*Map, error) {
	if _, err := checkSpec(spec); err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	if f == nil {
		return nil, fmt.Errorf("map: %w: no function", ErrArgument)
	}
	spec.Shape = slices.Clone(spec.Shape)
	return &Map{d, spec, f}, nil
}

// Len implements [Dataset].
func (d *Map) Len() int { return d.dataset.Len() }

// Spec implements [Dataset].
func (d *Map) Spec() Spec {
	return Spec{Shape: slices.Clone(d.spec.Shape), DType: d.spec.DType}
}

// Name implements [Dataset].
func (d *Map) Name(i int) string { return d.dataset.Name(i) }

// Label implements [Dataset].
func (d *Map) Label(i int) int32 { return d.dataset.Label(i) }

// NewReader implements [Dataset].
func (d *Map) NewReader() (Reader, error) {
	r, err := d.dataset.NewReader()
	if err != nil {
		return nil, err
	}
	return &mapReader{d, r, make([]byte, d.dataset.Spec().Bytes()), d.spec.Bytes()}, nil
}

type mapReader struct {
	mapped *Map
	reader Reader
	src    []byte
	bytes  int
}

// Read implements [Reader].
func (r *mapReader) Read(i int, dst []byte, t *Timing) error {
	if err := checkRead(r.mapped, i, dst, r.bytes); err != nil {
		return err
	}
	if err := r.reader.Read(i, r.src, t); err != nil {
		return err
	}
	if err := r.mapped.call(i, dst, r.src); err != nil {
		return fmt.Errorf("%s: %w", r.mapped.Name(i), err)
	}
	return nil
}

// call calls the function and makes an error of its panic.
func (d *Map) call(i int, dst, src []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w in the function of a map: %v\n%s", ErrPanic, p, debug.Stack())
		}
	}()
	return d.f(i, dst[:len(dst):len(dst)], src)
}

// Close implements [Reader].
func (r *mapReader) Close() error { return r.reader.Close() }
