package dataset

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// Arrays is samples each of which is a NumPy file: an array of one element
// type and one shape, or one shape but for the length of axis 0.
type Arrays struct {
	Files
	spec   Spec
	header int                          // bytes, of the first file
	sizes  interface{ Size(int) int64 } // of the files, if the samples are ragged
	owned  io.Closer                    // nil: the files are the caller's
}

// NewArrays makes a dataset of .npy files. It reads the first one. Where the
// files tell their sizes, as those of a [Tar] do, samples may differ in the
// length of axis 0, which is reckoned from the size and may be 0; other files
// are of the shape of the first. Each file is held against that when it is
// read, and fails with [ErrFormat] if it is another array. It fails with
// [ErrEmpty] where all are empty. The files stay the caller's.
func NewArrays(ctx context.Context, files Files) (*Arrays, error) {
	d := &Arrays{Files: files}
	r, err := files.NewFileReader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	content, err := r.ReadFile(ctx, 0, nil)
	if err != nil {
		return nil, err
	}
	h, err := wholeNPY(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files.Name(0), err)
	}
	d.spec, d.header = Spec{Shape: h.shape, DType: h.dtype}, int(h.bytes)
	sizes, ok := files.(interface{ Size(int) int64 })
	if !ok {
		if err := h.checkSamples(); err != nil {
			return nil, fmt.Errorf("%s: %w", files.Name(0), err)
		}
		return d, nil
	}
	row, longest := int64(d.spec.RowBytes()), int64(0)
	for i := range files.Len() {
		bytes := sizes.Size(i) - int64(d.header)
		if bytes < 0 || bytes%row != 0 {
			return nil, fmt.Errorf("%s: %w: %d bytes are no array like that of %s: a header of %d bytes, and rows of %d (%v)",
				files.Name(i), ErrFormat, sizes.Size(i), files.Name(0), d.header, row, d.spec)
		}
		if n := bytes / row; n != int64(d.spec.Shape[0]) {
			d.spec.Ragged, d.sizes = true, sizes
			longest = max(longest, n)
		}
	}
	d.spec.Shape[0] = max(d.spec.Shape[0], int(longest))
	if d.spec.Shape[0] == 0 {
		return nil, fmt.Errorf("%s: %w: no rows in %d arrays", files.Name(0), ErrEmpty, files.Len())
	}
	return d, nil
}

// wholeNPY reads the header of a NumPy file and checks the file's size.
func wholeNPY(content []byte) (npyHeader, error) {
	h, err := readNPYHeader(bytes.NewReader(content))
	if err == nil {
		err = h.checkSize(int64(len(content)))
	}
	return h, err
}

// Spec implements [Dataset].
func (d *Arrays) Spec() Spec { return d.spec.clone() }

// Length implements [Ragged].
func (d *Arrays) Length(i int) int {
	if d.sizes == nil {
		return d.spec.Shape[0]
	}
	return int(d.sizes.Size(i)-int64(d.header)) / d.spec.RowBytes()
}

// Close closes the files, if [Open] has opened them.
func (d *Arrays) Close() error {
	if d.owned == nil {
		return nil
	}
	return d.owned.Close()
}

// NewReader implements [Dataset].
func (d *Arrays) NewReader() (Reader, error) {
	files, err := d.NewFileReader()
	if err != nil {
		return nil, err
	}
	return &arraysReader{arrays: d, files: files}, nil
}

type arraysReader struct {
	arrays *Arrays
	files  FileReader // nil after Close
	buffer fileBuffer
}

// Read implements [Reader].
func (r *arraysReader) Read(ctx context.Context, v Visit, dst []byte) error {
	d := r.arrays
	if err := checkIndex(d, v.Index); err != nil {
		return err
	}
	if err := checkRead(d, v.Index, dst, SampleBytes(d, v.Index)); err != nil {
		return err
	}
	if r.files == nil {
		return fmt.Errorf("%s: %w", d.Name(v.Index), fs.ErrClosed)
	}
	start := v.Timing.start()
	content, err := r.buffer.load(func(buf []byte) ([]byte, error) { return r.files.ReadFile(ctx, v.Index, buf) })
	if err != nil {
		return err
	}
	h, err := wholeNPY(content)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(v.Index), err)
	}
	want := d.spec.clone()
	want.Shape[0] = d.Length(v.Index)
	if h.dtype != want.DType || !slices.Equal(h.shape, want.Shape) {
		return fmt.Errorf("%s: %w: an array of %v, want %v as %s has", d.Name(v.Index), ErrFormat,
			Spec{Shape: h.shape, DType: h.dtype}, Spec{Shape: want.Shape, DType: want.DType}, d.Name(0))
	}
	copy(dst, content[h.bytes:])
	v.Timing.read(start)
	return nil
}

// Close implements [Reader].
func (r *arraysReader) Close() error {
	if r.files == nil {
		return nil
	}
	files := r.files
	r.files, r.buffer = nil, fileBuffer{}
	return files.Close()
}
