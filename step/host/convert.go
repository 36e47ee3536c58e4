package host

import (
	"unsafe"

	"github.com/pinion-gpu/pinion/dtype"
)

// convert is a conversion between types, of elements as they are computed.
func convert(from, to dtype.DType) element {
	switch computed(from) {
	case dtype.F32:
		return convertFrom[float32](from, to)
	case dtype.F64:
		return convertFrom[float64](from, to)
	case dtype.I8:
		return convertFrom[int8](from, to)
	case dtype.I16:
		return convertFrom[int16](from, to)
	case dtype.I32:
		return convertFrom[int32](from, to)
	case dtype.I64:
		return convertFrom[int64](from, to)
	case dtype.U8, dtype.Bool:
		return convertFrom[uint8](from, to)
	case dtype.U16:
		return convertFrom[uint16](from, to)
	case dtype.U32:
		return convertFrom[uint32](from, to)
	case dtype.U64:
		return convertFrom[uint64](from, to)
	}
	return nil
}

func convertFrom[T number](from, to dtype.DType) element {
	switch to {
	case dtype.F16, dtype.BF16:
		return mapped(func(x T) float32 { return roundOne(to, float64(x)) })
	case dtype.F32:
		return mapped(func(x T) float32 { return float32(x) })
	case dtype.F64:
		return mapped(func(x T) float64 { return float64(x) })
	case dtype.Bool:
		return mapped(func(x T) uint8 { return truth(x != 0) })
	case dtype.I8:
		return convertInteger[T, int8](from)
	case dtype.I16:
		return convertInteger[T, int16](from)
	case dtype.I32:
		return convertInteger[T, int32](from)
	case dtype.I64:
		return convertInteger[T, int64](from)
	case dtype.U8:
		return convertInteger[T, uint8](from)
	case dtype.U16:
		return convertInteger[T, uint16](from)
	case dtype.U32:
		return convertInteger[T, uint32](from)
	case dtype.U64:
		return convertInteger[T, uint64](from)
	}
	return nil
}

func convertInteger[T number, R integer](from dtype.DType) element {
	if from.IsFloat() {
		return mapped(func(x T) R { return toInteger[R](float64(x)) })
	}
	return mapped(func(x T) R { return R(x) })
}

func bytesOfInts(x []int64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*8)
}
