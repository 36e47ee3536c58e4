package parquet

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
)

// element is how numbers are written into samples.
type element struct {
	dtype dtype.DType
	fill  []byte // what stands for a null; nil if nothing does
}

// newElement fails with [dataset.ErrArgument] for a fill that is no d.
func newElement(d dtype.DType, fill *float64) (element, error) {
	e := element{dtype: d}
	if fill != nil {
		b := make([]byte, d.Size())
		if e.putFloats(b, d.Size(), []float64{*fill}) == 0 {
			return e, fmt.Errorf("%w: %v for nulls is not a valid %v", dataset.ErrArgument, *fill, d)
		}
		e.fill = b
	}
	return e, nil
}

// putInts writes numbers stride bytes apart, and returns how many: it stops at
// one that does not fit.
func (e element) putInts(dst []byte, stride int, src []int64) int {
	switch e.dtype {
	case dtype.U8, dtype.I8, dtype.U16, dtype.I16, dtype.I32, dtype.I64:
		return putWhole(e.dtype, dst, stride, src)
	}
	var floats [256]float64
	done := 0
	for done < len(src) {
		n := min(len(src)-done, len(floats))
		for i, v := range src[done:][:n] {
			floats[i] = float64(v)
		}
		put := e.putFloats(dst[done*stride:], stride, floats[:n])
		done += put
		if put < n {
			break
		}
	}
	return done
}

func putWhole(d dtype.DType, dst []byte, stride int, src []int64) int {
	for i, v := range src {
		at := dst[i*stride:]
		switch d {
		case dtype.U8:
			if v != int64(uint8(v)) {
				return i
			}
			at[0] = uint8(v)
		case dtype.I8:
			if v != int64(int8(v)) {
				return i
			}
			at[0] = uint8(v)
		case dtype.U16:
			if v != int64(uint16(v)) {
				return i
			}
			binary.LittleEndian.PutUint16(at, uint16(v))
		case dtype.I16:
			if v != int64(int16(v)) {
				return i
			}
			binary.LittleEndian.PutUint16(at, uint16(v))
		case dtype.I32:
			if v != int64(int32(v)) {
				return i
			}
			binary.LittleEndian.PutUint32(at, uint32(v))
		case dtype.I64:
			binary.LittleEndian.PutUint64(at, uint64(v))
		}
	}
	return len(src)
}

// putFloats is putInts for floats. Rounding is no reason to stop, but there
// are no parts of whole numbers, and no infinity of what is finite.
func (e element) putFloats(dst []byte, stride int, src []float64) int {
	switch e.dtype {
	case dtype.F64:
		for i, v := range src {
			binary.LittleEndian.PutUint64(dst[i*stride:], math.Float64bits(v))
		}
	case dtype.F32:
		for i, v := range src {
			f := float32(v)
			if f-f != 0 && overflows(f, v) { // an infinity or NaN
				return i
			}
			binary.LittleEndian.PutUint32(dst[i*stride:], math.Float32bits(f))
		}
	case dtype.F16:
		return putHalf(dst, stride, src, float16.ToF16, float16.FromF16)
	case dtype.BF16:
		return putHalf(dst, stride, src, float16.ToBF16, float16.FromBF16)
	default:
		for i, v := range src {
			if v != math.Trunc(v) || v < -1<<63 || v >= 1<<63 || putWhole(e.dtype, dst[i*stride:], stride, []int64{int64(v)}) == 0 {
				return i
			}
		}
	}
	return len(src)
}

func putHalf(dst []byte, stride int, src []float64, to func(float32) uint16, from func(uint16) float32) int {
	for i, v := range src {
		h := to(float16.RoundToOdd(v))
		if overflows(from(h), v) {
			return i
		}
		binary.LittleEndian.PutUint16(dst[i*stride:], h)
	}
	return len(src)
}

func overflows(rounded float32, v float64) bool {
	return math.IsInf(float64(rounded), 0) && !math.IsInf(v, 0)
}
