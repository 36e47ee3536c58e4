package nifti

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/stored"
	"github.com/pinion-gpu/pinion/dtype"
)

// voxelReader makes samples of volumes. It keeps one volume in memory.
type voxelReader struct {
	opts Options
	raw  []byte
}

// read makes the sample dst of a volume of that header and shape, whose bytes
// load reads.
func (r *voxelReader) read(dst []byte, h header, shape []int, timing *dataset.Timing, load func(b []byte) error) error {
	to := r.opts.DType
	size := r.opts.size(shape)
	if !h.kind.widens && to == h.kind.dtype && !(to == dtype.F32 && h.scaled()) && slices.Equal(size, shape) {
		if err := load(dst); err != nil {
			return err
		}
		start := timing.Start()
		h.native(dst)
		timing.AddDecode(start)
		return nil
	}
	bytes := int(elements(shape)) * h.kind.size
	if cap(r.raw) < bytes {
		r.raw = make([]byte, bytes)
	}
	raw := r.raw[:bytes]
	if err := load(raw); err != nil {
		return err
	}
	start := timing.Start()
	h.native(raw)
	if padded(size, shape) {
		fill(dst, r.opts.Fill, to)
	}
	err := h.place(dst, size, raw, shape, to)
	timing.AddDecode(start)
	return err
}

// place puts the middle of a volume into the middle of another one, axis by
// axis.
func (h header) place(dst []byte, size []int, src []byte, shape []int, to dtype.DType) error {
	n, m := shape[0], size[0]
	from, at, count := max(n-m, 0)/2, max(m-n, 0)/2, min(n, m)
	srcRow, dstRow := len(src)/n, len(dst)/m
	if len(shape) == 1 || slices.Equal(shape[1:], size[1:]) {
		return h.convert(dst[at*dstRow:][:count*dstRow], src[from*srcRow:][:count*srcRow], to)
	}
	for i := range count {
		err := h.place(dst[(at+i)*dstRow:][:dstRow], size[1:], src[(from+i)*srcRow:][:srcRow], shape[1:], to)
		if err != nil {
			return err
		}
	}
	return nil
}

func padded(size, shape []int) bool {
	for i := range size {
		if size[i] > shape[i] {
			return true
		}
	}
	return false
}

// native makes little-endian voxels, in place.
func (h header) native(b []byte) {
	if !h.bigEndian {
		return
	}
	stored.Swap(b, h.kind.size)
}

// convert makes elements of samples of voxels.
func (h header) convert(dst, src []byte, to dtype.DType) error {
	if to != dtype.F32 {
		switch {
		case !h.kind.widens:
			copy(dst, src)
		case h.kind.code == u16:
			for i, v := range elementsOf[uint16](src) {
				binary.LittleEndian.PutUint32(dst[4*i:], uint32(v))
			}
		default:
			copy(dst[len(dst)-len(src):], src)
			return stored.Unsigned(h.kind.size).Convert(dst)
		}
		return nil
	}
	switch h.kind.code {
	case u16:
		scale(dst, elementsOf[uint16](src), h)
		return nil
	case u32:
		scale(dst, elementsOf[uint32](src), h)
		return nil
	case u64:
		scale(dst, elementsOf[uint64](src), h)
		return nil
	}
	switch h.kind.dtype {
	case dtype.U8:
		scale(dst, elementsOf[uint8](src), h)
	case dtype.I8:
		scale(dst, elementsOf[int8](src), h)
	case dtype.I16:
		scale(dst, elementsOf[int16](src), h)
	case dtype.I32:
		scale(dst, elementsOf[int32](src), h)
	case dtype.I64:
		scale(dst, elementsOf[int64](src), h)
	case dtype.F32:
		scale(dst, elementsOf[float32](src), h)
	case dtype.F64:
		scale(dst, elementsOf[float64](src), h)
	}
	return nil
}

// voxel is a type of voxels as they are stored.
type voxel interface {
	dataset.Number | uint32 | uint64
}

// elementsOf is memory of a reader, which begins where any type may, as
// elements.
func elementsOf[T voxel](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// scale applies the scaling of the header, in float64.
func scale[T voxel](dst []byte, src []T, h header) {
	for i, v := range src {
		// The conversion keeps the compiler from a fused multiply-add, so that
		// all machines give the same bits.
		f := float32(float64(float64(v)*h.slope) + h.inter)
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
	}
}

// fill fills dst with a value that [checkFill] accepts.
func fill(dst []byte, value float64, to dtype.DType) {
	var element [8]byte
	switch to {
	case dtype.F32:
		binary.LittleEndian.PutUint32(element[:], math.Float32bits(float32(value)))
	case dtype.F64:
		binary.LittleEndian.PutUint64(element[:], math.Float64bits(value))
	default:
		binary.LittleEndian.PutUint64(element[:], uint64(int64(value)))
	}
	for n := copy(dst, element[:to.Size()]); n < len(dst); {
		n += copy(dst[n:], dst[:n])
	}
}

// checkFill checks that a value is one of that type.
func checkFill(value float64, to dtype.DType) error {
	whole := func(low, high float64) bool { return value >= low && value < high && value == math.Trunc(value) }
	limit, ok := math.Exp2(float64(8*to.Size()-1)), true
	switch to {
	case dtype.F32:
		ok = !math.IsInf(float64(float32(value)), 0) || math.IsInf(value, 0)
	case dtype.F64:
	case dtype.U8:
		ok = whole(0, 256)
	default:
		ok = whole(-limit, limit)
	}
	if !ok {
		return fmt.Errorf("%w: volumes of type %v cannot be filled up with %v", dataset.ErrArgument, to, value)
	}
	return nil
}
