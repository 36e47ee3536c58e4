package dataset

import (
	"cmp"
	"fmt"
)

// NPY is a NumPy array in a .npy file, format 1, 2 or 3. The first axis
// counts samples: an array of shape (N, 3, 8) is N samples of {3, 8}. Arrays
// are in C order, little-endian, of type bool (read as u8), uint8, int8,
// int16, int32, int64, float16, float32 or float64.
type NPY struct{ fileArray }

// OpenNPY opens an array and reads its header. Close closes the file.
// It fails with [ErrFormat] for what is no array or one of another kind,
// [ErrEmpty] for an array of no elements, [ErrDamaged] for a broken header or
// a file whose size is not what the header says.
func OpenNPY(path string) (*NPY, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	h, err := readNPYHeader(f)
	if err == nil {
		err = cmp.Or(h.checkSamples(), h.checkSize(size))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	spec := Spec{Shape: h.shape[1:], DType: h.dtype}
	return &NPY{fileArray{array{path, nil, spec, h.shape[0], spec.Bytes()}, f, h.bytes}}, nil
}
