package nifti

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
)

// Options says how the voxels of NIfTI files become samples. The zero
// value works.
type Options struct {
	// DType is the type of the samples' elements. F32: voxels are converted,
	// and scaled by the file's scl_slope and scl_inter. U8, I8, I16, I32, I64
	// and F64: voxels must be of that type and stay as they are stored, without
	// scaling; uint16 is I32, uint32 and uint64 are I64. Default F32.
	DType dtype.DType
	// Size crops and pads every volume around its middle to that shape,
	// slowest axis first: {Z, Y, X}. Default nil: volumes stay as they are.
	Size []int
	// Fill is the value around volumes that are smaller than Size. Default 0.
	Fill float64
	// MaxBytes is the largest volume that is read, as it is stored and as a
	// sample. Default 1 GiB.
	MaxBytes int64
}

func (o Options) withDefaults() (Options, error) {
	o.DType = cmp.Or(o.DType, dtype.F32)
	o.MaxBytes = cmp.Or(max(o.MaxBytes, 0), 1<<30)
	o.Size = slices.Clone(o.Size)
	if !slices.ContainsFunc(voxelKinds, func(k voxelKind) bool { return k.dtype == o.DType }) {
		return o, fmt.Errorf("%w: volumes of type %v; want f32, u8, i8 to i64 or f64", dataset.ErrArgument, o.DType)
	}
	if i := slices.IndexFunc(o.Size, func(d int) bool { return d < 1 }); i >= 0 {
		return o, fmt.Errorf("%w: volumes of size %v", dataset.ErrArgument, o.Size)
	}
	return o, checkFill(o.Fill, o.DType)
}

// size returns the shape of the sample of a volume.
func (o Options) size(shape []int) []int {
	if o.Size != nil {
		return o.Size
	}
	return shape
}

// check checks that volumes of that header can be read.
func (o Options) check(h header, shape []int) error {
	if o.DType != dtype.F32 && o.DType != h.kind.dtype {
		return fmt.Errorf("%w: voxels of type %v; want %v, or samples of f32", dataset.ErrFormat, h.kind.dtype, o.DType)
	}
	if o.Size != nil && len(o.Size) != len(shape) {
		return fmt.Errorf("%w: a volume of shape %v, size %v", dataset.ErrFormat, shape, o.Size)
	}
	if h.offset > o.MaxBytes {
		return fmt.Errorf("%w: voxels begin at %d, the limit is %d", dataset.ErrTooLarge, h.offset, o.MaxBytes)
	}
	_, err := volumeBytes(shape, max(h.kind.size, o.DType.Size()), o.MaxBytes)
	if err == nil && o.Size != nil {
		_, err = volumeBytes(o.Size, o.DType.Size(), o.MaxBytes)
	}
	return err
}
