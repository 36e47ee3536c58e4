// Package ragged is folders of files that are one sample each, of lengths that
// are known without reading all of them.
package ragged

import (
	"context"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/parallel"
	"github.com/pinion-gpu/pinion/dtype"
)

// Files is a folder of such files. What is wrong with one of them is an error of
// its sample, not of the folder.
type Files struct {
	*dataset.Folder
	spec    dataset.Spec
	row     int           // bytes
	lengths []int32       // of axis 0
	faults  map[int]error // of files that cannot be read
}

// Form says what samples are made of.
type Form struct {
	DType dtype.DType
	// Ragged: samples count as of different lengths even where all are equal.
	Ragged bool
	// Shape returns the shape of the sample of a file.
	Shape func(path string) ([]int, error)
	// Unlike is the error for a sample whose shape, but for axis 0, is not that
	// of the first.
	Unlike func(shape, first []int, nameOfFirst string) error
}

// Measure finds the lengths of all samples. It fails where no file can be read, with
// the error of the first, where samples are unlike each other, and with
// [dataset.ErrEmpty] where all are empty. Files that cannot be read say more than
// those that are empty.
func Measure(ctx context.Context, folder *dataset.Folder, form Form) (*Files, error) {
	n := folder.Len()
	shapes, errs := make([][]int, n), make([]error, n)
	err := parallel.Each(ctx, n, func(i int) error {
		shapes[i], errs[i] = form.Shape(folder.Name(i))
		return nil
	})
	if err != nil {
		return nil, err
	}
	d := &Files{Folder: folder, lengths: make([]int32, n), faults: map[int]error{}}
	for i, err := range errs {
		if err != nil {
			d.faults[i] = err
		}
	}
	if len(d.faults) == n {
		return nil, errs[d.firstFault()]
	}
	first := slices.Index(errs, nil)
	d.spec = dataset.Spec{Shape: slices.Clone(shapes[first]), DType: form.DType, Ragged: form.Ragged}
	for i, shape := range shapes {
		if errs[i] != nil {
			continue
		}
		if !slices.Equal(shape[1:], d.spec.Shape[1:]) {
			return nil, fmt.Errorf("%s: %w", folder.Name(i), form.Unlike(shape, shapes[first], folder.Name(first)))
		}
		d.lengths[i] = int32(shape[0])
		d.spec.Shape[0] = max(d.spec.Shape[0], shape[0])
		d.spec.Ragged = d.spec.Ragged || shape[0] != shapes[first][0]
	}
	if d.spec.Shape[0] == 0 {
		if len(d.faults) > 0 {
			return nil, errs[d.firstFault()]
		}
		return nil, dataset.ErrEmpty
	}
	if !d.spec.Ragged {
		for i := range d.faults {
			d.lengths[i] = int32(d.spec.Shape[0])
		}
	}
	d.row = d.spec.RowBytes()
	return d, nil
}

// Spec implements [dataset.Dataset].
func (d *Files) Spec() dataset.Spec {
	s := d.spec
	s.Shape = slices.Clone(s.Shape)
	return s
}

// Length implements [dataset.Ragged]. That of a file that cannot be read is 0
// where samples differ in length.
func (d *Files) Length(i int) int { return int(d.lengths[i]) }

// CheckRead checks the arguments of [dataset.Reader.Read], and fails for a file
// that cannot be read.
func (d *Files) CheckRead(i int, dst []byte) error {
	if err := dataset.CheckIndex(d, i); err != nil {
		return err
	}
	if err := d.faults[i]; err != nil {
		return err
	}
	return dataset.CheckRead(d, i, dst, d.row*d.Length(i))
}

// Matches reports whether a shape is that of sample i.
func (d *Files) Matches(i int, shape []int) bool {
	return shape[0] == d.Length(i) && slices.Equal(shape[1:], d.spec.Shape[1:])
}

// Warnings implements what [dataset.Warnings] asks for.
func (d *Files) Warnings() []string {
	if len(d.faults) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d files cannot be read; the first: %v", len(d.faults), d.Len(), d.faults[d.firstFault()])}
}

// firstFault returns the first file that cannot be read.
func (d *Files) firstFault() int {
	first := d.Len()
	for i := range d.faults {
		first = min(first, i)
	}
	return first
}
