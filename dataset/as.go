package dataset

import (
	"errors"
	"io"
	"slices"

	"github.com/pinion-gpu/pinion/imaging"
)

// As finds an ability of d: an interface, or a type, that d has, or that what it
// wraps has. It is to datasets what [errors.As] is to errors. The first of d and
// what it unwraps to that is a T is the result; a dataset may also make one, by
// a method As(target any) bool that sets the *T that it is given.
//
//	photos, ok := dataset.As[dataset.Encoded](ds) // can a device decode them?
//
// A dataset that wraps another one, and has its samples under its numbers, says
// so by a method Unwrap() Dataset: embed a [Wrapper]. One that has other numbers
// or other samples, as a [Subset] or a [Map] has, must not: what is found behind
// it would be of other samples. It keeps what it can by methods of its own, and
// tells what it is made of by Unwrap() []Dataset.
func As[T any](d Dataset) (T, bool) {
	for d != nil {
		if t, ok := d.(T); ok {
			return t, true
		}
		if maker, ok := d.(interface{ As(target any) bool }); ok {
			var t T
			if maker.As(&t) {
				return t, true
			}
		}
		wrapper, ok := d.(interface{ Unwrap() Dataset })
		if !ok {
			break
		}
		d = wrapper.Unwrap()
	}
	var none T
	return none, false
}

// Wrapper is embedded by datasets that change some of the methods of another
// one, and neither its samples nor their numbers: to count, to measure, to test.
// [As] still finds what the other one can do.
type Wrapper struct{ Dataset }

// Unwrap returns the dataset in it.
func (w Wrapper) Unwrap() Dataset { return w.Dataset }

// Unwrap returns the datasets that the samples of d come from, where d is a
// [Subset], a [Concat], a [Map] or one of your own with a method Unwrap()
// []Dataset, or wraps one; nil where it is none.
func Unwrap(d Dataset) []Dataset {
	if whole, ok := As[interface{ Unwrap() []Dataset }](d); ok {
		return whole.Unwrap()
	}
	return nil
}

// Classes returns the names of the classes of d, to which labels are indexes;
// nil where they have none.
func Classes(d Dataset) []string {
	if c, ok := As[interface{ Classes() []string }](d); ok {
		return c.Classes()
	}
	return nil
}

// Targets returns the labels of d that are no classes, such as prices or several
// numbers for each sample, as a dataset of its own; sample i goes with sample i
// of d. A loader takes it among its targets. It is nil where there are none.
func Targets(d Dataset) Dataset {
	if t, ok := As[interface{ Targets() Dataset }](d); ok {
		return t.Targets()
	}
	return nil
}

// Warnings returns what those who use d should know though it is no error, each
// one sentence: files that cannot be read, sizes that fit more than one meaning.
// It asks for a method Warnings() []string.
func Warnings(d Dataset) []string {
	if w, ok := As[interface{ Warnings() []string }](d); ok {
		return w.Warnings()
	}
	var all []string
	for _, part := range Unwrap(d) {
		all = append(all, Warnings(part)...)
	}
	return all
}

// Owning returns d as one whose Close also closes what its samples come from.
func Owning(d Dataset, source io.Closer) Dataset { return &owner{Wrapper{d}, source} }

type owner struct {
	Wrapper
	source io.Closer
}

// Close closes the dataset, then its source.
func (d *owner) Close() error { return errors.Join(Close(d.Dataset), d.source.Close()) }

// Close closes d, if it has to be closed.
func Close(d Dataset) error {
	if c, ok := As[io.Closer](d); ok {
		return c.Close()
	}
	return nil
}

// Transforms returns the transforms that make the samples of d, each once, in the
// order of the parts of a chain. It looks behind subsets, chains and maps, where
// [As] finds an [Encoded] only if all have one transform. The zero transform
// stands for samples that are no pictures.
func Transforms(d Dataset) []imaging.Transform {
	if pictures, ok := As[Encoded](d); ok {
		return []imaging.Transform{pictures.Transform()}
	}
	var all []imaging.Transform
	for _, p := range Unwrap(d) {
		for _, t := range Transforms(p) {
			if !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	if all == nil {
		return make([]imaging.Transform, 1)
	}
	return all
}
