package dataset

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// NPY is a NumPy array in a .npy file, format 1, 2 or 3. The first axis
// counts samples: an array of shape (N, 3, 8) is N samples of {3, 8}. Arrays
// are in C order, little-endian, of type bool (read as u8), uint8, int8,
// int16, int32, int64, float16, float32 or float64.
type NPY struct {
	path   string
	file   *os.File
	spec   Spec
	n      int
	start  int64 // of sample 0 in the file
	sample int   // bytes
}

// OpenNPY opens an array and reads its header. [NPY.Close] closes the file.
// It fails with [ErrFormat] for what is no array or one of another kind,
// [ErrEmpty] for an array of no elements, [ErrDamaged] for a broken header or
// a file whose size is not what the header says.
func OpenNPY(path string) (*NPY, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(path, info); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	d, err := newNPY(path, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return d, nil
}

func newNPY(path string, f *os.File) (*NPY, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	h, err := readNPYHeader(f)
	if err == nil {
		err = h.checkSize(info.Size())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	spec := Spec{Shape: h.shape[1:], DType: h.dtype}
	return &NPY{path: path, file: f, spec: spec, n: h.shape[0], start: h.bytes, sample: spec.Bytes()}, nil
}

// Len implements [Dataset].
func (d *NPY) Len() int { return d.n }

// Spec implements [Dataset].
func (d *NPY) Spec() Spec {
	return Spec{Shape: slices.Clone(d.spec.Shape), DType: d.spec.DType}
}

// Name implements [Dataset]: "path[i]".
func (d *NPY) Name(i int) string { return fmt.Sprintf("%s[%d]", d.path, i) }

// Label implements [Dataset]: -1, an array has none.
func (d *NPY) Label(int) int32 { return -1 }

// NewReader implements [Dataset]. Readers share the file and none of its
// state.
func (d *NPY) NewReader() (Reader, error) { return &npyReader{array: d}, nil }

// Close closes the file. Reads fail from then on with [fs.ErrClosed].
func (d *NPY) Close() error { return d.file.Close() }

type npyReader struct {
	array  *NPY
	closed bool
}

// Read implements [Reader].
func (r *npyReader) Read(i int, dst []byte, t *Timing) error {
	d := r.array
	if err := checkRead(d, i, dst, d.sample); err != nil {
		return err
	}
	if r.closed {
		return fmt.Errorf("%s: %w", d.Name(i), fs.ErrClosed)
	}
	start := time.Now()
	n, err := d.file.ReadAt(dst, d.start+int64(i)*int64(d.sample))
	if errors.Is(err, io.EOF) && n < len(dst) {
		return fmt.Errorf("%s: %w: the file has shrunk: %d of %d bytes", d.Name(i), ErrDamaged, n, len(dst))
	}
	if err != nil && n < len(dst) {
		return fmt.Errorf("%s: %w", d.Name(i), err)
	}
	if t != nil {
		t.Read += time.Since(start)
	}
	return nil
}

// Close implements [Reader].
func (r *npyReader) Close() error {
	r.closed = true
	return nil
}
