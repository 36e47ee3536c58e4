package nifti

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
)

const (
	header1Bytes = 348
	header2Bytes = 540
)

// header is what the header of a NIfTI-1 or NIfTI-2 file says about its
// voxels: https://nifti.nimh.nih.gov/nifti-1 and .../nifti-2
type header struct {
	shape        []int // slowest axis first: the file's in reverse
	kind         voxelKind
	bigEndian    bool
	offset       int64 // of the first voxel
	slope, inter float64
}

// voxelKind is a type of voxels.
type voxelKind struct {
	code   int
	dtype  dtype.DType // as samples without scaling
	size   int         // bytes in the file
	widens bool        // the samples' type is another one, of numbers without sign
}

var voxelKinds = []voxelKind{
	{2, dtype.U8, 1, false}, {256, dtype.I8, 1, false}, {4, dtype.I16, 2, false}, {u16, dtype.I32, 2, true},
	{8, dtype.I32, 4, false}, {1024, dtype.I64, 8, false}, {u32, dtype.I64, 4, true}, {u64, dtype.I64, 8, true},
	{16, dtype.F32, 4, false}, {64, dtype.F64, 8, false},
}

// Codes of numbers without sign, which widen.
const u16, u32, u64 = 512, 768, 1280

// versionOf tells the version, 0 for what is no NIfTI, and the byte order
// by the first bytes of a file.
func versionOf(b []byte) (version int, order binary.ByteOrder) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		switch {
		case len(b) >= header1Bytes && order.Uint32(b) == header1Bytes && string(b[344:348]) == "n+1\x00":
			return 1, order
		case len(b) >= header2Bytes && order.Uint32(b) == header2Bytes && string(b[4:12]) == "n+2\x00\r\n\x1a\n":
			return 2, order
		}
	}
	return 0, nil
}

// parseHeader reads the header that a file begins with.
func parseHeader(b []byte) (h header, err error) {
	version, order := versionOf(b)
	if version == 0 {
		return h, fmt.Errorf("%w: not a NIfTI-1 or NIfTI-2 file of header and voxels; begins with %q", dataset.ErrFormat, b[:min(len(b), 8)])
	}
	h.bigEndian = order == binary.BigEndian
	i16 := func(at int) int { return int(int16(order.Uint16(b[at:]))) }
	f32 := func(at int) float64 { return float64(math.Float32frombits(order.Uint32(b[at:]))) }
	f64 := func(at int) float64 { return math.Float64frombits(order.Uint64(b[at:])) }
	var code, bits int
	var offset float64
	var dim func(i int) int64
	if version == 1 {
		code, bits, offset = i16(70), i16(72), f32(108)
		h.slope, h.inter = f32(112), f32(116)
		dim = func(i int) int64 { return int64(i16(40 + 2*i)) }
	} else {
		code, bits, offset = i16(12), i16(14), float64(int64(order.Uint64(b[168:])))
		h.slope, h.inter = f64(176), f64(184)
		dim = func(i int) int64 { return int64(order.Uint64(b[16+8*i:])) }
	}
	for _, k := range voxelKinds {
		if k.code == code {
			h.kind = k
		}
	}
	switch {
	case h.kind.code == 0:
		return h, fmt.Errorf("%w: NIfTI voxels of type %d; want uint8 to uint64, int8 to int64, float32 or float64", dataset.ErrFormat, code)
	case bits != 8*h.kind.size:
		return h, fmt.Errorf("%w: NIfTI voxels of type %d and %d bits", dataset.ErrDamaged, code, bits)
	case !(offset >= header1Bytes+4) || version == 2 && offset < header2Bytes+4 || offset > 1<<53 || offset != math.Trunc(offset):
		return h, fmt.Errorf("%w: NIfTI voxels begin at %v", dataset.ErrDamaged, offset)
	}
	h.offset = int64(offset)
	if h.slope == 0 || math.IsNaN(h.slope) || math.IsInf(h.slope, 0) { // not given
		h.slope, h.inter = 1, 0
	}
	if math.IsNaN(h.inter) || math.IsInf(h.inter, 0) {
		return h, fmt.Errorf("%w: NIfTI scaling by %v plus %v", dataset.ErrDamaged, h.slope, h.inter)
	}
	axes := dim(0)
	if axes < 1 || axes > 7 {
		return h, fmt.Errorf("%w: NIfTI file of %d axes", dataset.ErrDamaged, axes)
	}
	// Above the third, axes of one voxel say nothing.
	for axes > 3 && dim(int(axes)) == 1 {
		axes--
	}
	for i := int(axes); i > 0; i-- {
		d := dim(i)
		if d < 1 || d > math.MaxInt32 {
			return h, fmt.Errorf("%w: NIfTI axis %d of %d voxels", dataset.ErrDamaged, i, d)
		}
		h.shape = append(h.shape, int(d))
	}
	return h, nil
}

// scaled reports whether voxels are not the values that they stand for.
func (h header) scaled() bool { return h.slope != 1 || h.inter != 0 }

// elements returns the number of elements of a shape.
func elements(shape []int) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= int64(d)
	}
	return n
}

// volumeBytes returns the bytes of a volume, at most limit.
func volumeBytes(shape []int, voxel int, limit int64) (int64, error) {
	bytes := int64(voxel)
	for _, d := range shape {
		if bytes > limit/int64(d) {
			return 0, fmt.Errorf("%w: a volume of shape %v, %d bytes a voxel; the limit is %d bytes", dataset.ErrTooLarge, shape, voxel, limit)
		}
		bytes *= int64(d)
	}
	return bytes, nil
}
