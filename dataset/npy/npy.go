package npy

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
)

// Array is a NumPy array in a .npy file, format 1, 2 or 3. The first axis
// counts samples: an array of shape (N, 3, 8) is N samples of {3, 8}. Arrays
// are in C order, little-endian, of type bool (read as u8), uint8, int8,
// int16, int32, int64, float16, float32 or float64.
type Array struct{ *dataset.Raw }

// Options configures [Open]. The zero value works.
type Options struct{}

// Open opens an array and reads its header. Close closes the file.
// It fails with [dataset.ErrFormat] for what is no array or one of another kind,
// [dataset.ErrEmpty] for an array of no elements, [dataset.ErrDamaged] for a
// broken header or a file whose size is not what the header says.
func Open(_ context.Context, path string, _ Options) (*Array, error) {
	f, size, err := file.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	h, err := readHeader(f)
	if err == nil {
		err = cmp.Or(h.checkSamples(), h.checkSize(size))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d, err := dataset.NewRaw(f, h.shape[0], h.sample(), dataset.RawOptions{Name: path, Offset: h.bytes})
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Array{d}, nil
}
