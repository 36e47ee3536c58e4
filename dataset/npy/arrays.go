package npy

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/internal/stored"
)

// Arrays is samples each of which is a NumPy file: an array of one element
// type and one shape, or one shape but for the length of axis 0.
type Arrays struct {
	dataset.Files
	spec   dataset.Spec
	row    int                          // bytes of a row in a file
	first  int                          // file whose header says what all are: the first that can be read
	header int                          // bytes, of that file
	sizes  interface{ Size(int) int64 } // of the files, if the samples are ragged
}

// NewArrays makes a dataset of .npy files. It reads the first one. Where the
// files tell their sizes, as those of tar shards do, samples may differ in the
// length of axis 0, which is reckoned from the size and may be 0; a size below 0
// is that of a file that cannot be read. Other files are of the shape of the first. Each file is held against that when it is
// read, and fails with [dataset.ErrFormat] if it is another array. It fails with
// [dataset.ErrEmpty] where all are empty. The files stay the caller's.
func NewArrays(ctx context.Context, files dataset.Files) (*Arrays, error) {
	d := &Arrays{Files: files}
	r, err := files.NewFileReader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	sizes, ok := files.(interface{ Size(int) int64 })
	for ok && sizes.Size(d.first) < 0 && d.first+1 < files.Len() {
		d.first++
	}
	content, err := r.ReadFile(ctx, d.first, nil)
	if err != nil {
		return nil, err
	}
	h, err := wholeNPY(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files.Name(d.first), err)
	}
	d.spec, d.header = dataset.Spec{Shape: h.shape, DType: h.DType}, int(h.bytes)
	if !ok {
		if err := h.checkSamples(); err != nil {
			return nil, fmt.Errorf("%s: %w", files.Name(d.first), err)
		}
		return d, nil
	}
	d.row = d.spec.RowBytes() / h.DType.Size() * h.Size
	row, longest := int64(d.row), int64(0)
	for i := range files.Len() {
		size := sizes.Size(i)
		if size < 0 {
			continue // it fails when it is read
		}
		bytes := size - int64(d.header)
		if bytes < 0 || bytes%row != 0 {
			return nil, fmt.Errorf("%s: %w: %d bytes are not an array like that of %s: a header of %d bytes, and rows of %d (%v)",
				files.Name(i), dataset.ErrFormat, size, files.Name(d.first), d.header, row, d.spec)
		}
		if n := bytes / row; n != int64(d.spec.Shape[0]) {
			d.spec.Ragged, d.sizes = true, sizes
			longest = max(longest, n)
		}
	}
	d.spec.Shape[0] = max(d.spec.Shape[0], int(longest))
	if d.spec.Shape[0] == 0 {
		return nil, fmt.Errorf("%s: %w: no rows in %d arrays", files.Name(d.first), dataset.ErrEmpty, files.Len())
	}
	return d, nil
}

// wholeNPY reads the header of a NumPy file and checks the file's size.
func wholeNPY(content []byte) (header, error) {
	h, err := readHeader(bytes.NewReader(content))
	if err == nil {
		err = h.checkSize(int64(len(content)))
	}
	return h, err
}

// elements makes a sample of the elements of a whole array.
func (h header) elements(dst, file []byte) error {
	if !h.fortran {
		copy(dst[len(dst)-len(file):], file)
		return h.Convert(dst)
	}
	return stored.Transpose(dst, h.shape, h.DType.Size(), func(b []byte) error {
		n := len(b) / h.DType.Size() * h.Size
		copy(b[len(b)-n:], file[:n])
		file = file[n:]
		return h.Convert(b)
	})
}

// Spec implements [dataset.Dataset].
func (d *Arrays) Spec() dataset.Spec { return d.spec.Clone() }

// Length implements [dataset.Ragged].
func (d *Arrays) Length(i int) int {
	if d.sizes == nil || d.sizes.Size(i) < 0 {
		return d.spec.Shape[0]
	}
	return int(d.sizes.Size(i)-int64(d.header)) / d.row
}

// NewReader implements [dataset.Dataset].
func (d *Arrays) NewReader() (dataset.Reader, error) {
	files, err := d.NewFileReader()
	if err != nil {
		return nil, err
	}
	return &arraysReader{arrays: d, files: files}, nil
}

type arraysReader struct {
	arrays *Arrays
	files  dataset.FileReader // nil after Close
	buffer file.Buffer
}

// Read implements [dataset.Reader].
func (r *arraysReader) Read(ctx context.Context, v dataset.Visit, dst []byte) error {
	d := r.arrays
	if err := dataset.CheckIndex(d, v.Index); err != nil {
		return err
	}
	if err := dataset.CheckRead(d, v.Index, dst, dataset.SampleBytes(d, v.Index)); err != nil {
		return err
	}
	if r.files == nil {
		return fmt.Errorf("%s: %w", d.Name(v.Index), fs.ErrClosed)
	}
	start := v.Timing.Start()
	content, err := r.buffer.Load(func(buf []byte) ([]byte, error) { return r.files.ReadFile(ctx, v.Index, buf) })
	if err != nil {
		return err
	}
	h, err := wholeNPY(content)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(v.Index), err)
	}
	want := d.spec.Clone()
	want.Shape[0] = d.Length(v.Index)
	if h.DType != want.DType || !slices.Equal(h.shape, want.Shape) {
		return fmt.Errorf("%s: %w: an array of %v, want %v as %s has", d.Name(v.Index), dataset.ErrFormat,
			dataset.Spec{Shape: h.shape, DType: h.DType}, dataset.Spec{Shape: want.Shape, DType: want.DType}, d.Name(d.first))
	}
	if err := h.elements(dst, content[h.bytes:]); err != nil {
		return fmt.Errorf("%s: %w", d.Name(v.Index), err)
	}
	v.Timing.AddRead(start)
	return nil
}

// Close implements [dataset.Reader].
func (r *arraysReader) Close() error {
	if r.files == nil {
		return nil
	}
	files := r.files
	r.files, r.buffer = nil, file.Buffer{}
	return files.Close()
}
