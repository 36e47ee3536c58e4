package host

import (
	"math"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
)

type floating interface{ float32 | float64 }

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type number interface{ floating | integer }

// computed is the type that elements of a type are computed in: float32 for those of 16
// bits.
func computed(t dtype.DType) dtype.DType {
	if half(t) {
		return dtype.F32
	}
	return t
}

func half(t dtype.DType) bool { return t == dtype.F16 || t == dtype.BF16 }

// widen and narrow convert numbers of 16 bits to float32 and back.
func widen(t dtype.DType, dst []float32, src []uint16) {
	if t == dtype.BF16 {
		for i, h := range src {
			dst[i] = float16.FromBF16(h)
		}
		return
	}
	for i, h := range src {
		dst[i] = float16.FromF16(h)
	}
}

func narrow(t dtype.DType, dst []uint16, src []float32) {
	if t == dtype.BF16 {
		for i, x := range src {
			dst[i] = float16.ToBF16(x)
		}
		return
	}
	for i, x := range src {
		dst[i] = float16.ToF16(x)
	}
}

// rounded leaves float32 numbers as a 16-bit type holds them.
func rounded(t dtype.DType, x []float32) {
	if t == dtype.BF16 {
		for i, v := range x {
			x[i] = float16.FromBF16(float16.ToBF16(v))
		}
		return
	}
	for i, v := range x {
		x[i] = float16.FromF16(float16.ToF16(v))
	}
}

func roundOne(t dtype.DType, x float64) float32 {
	if t == dtype.BF16 {
		return float16.FromBF16(float16.ToBF16(float16.RoundToOdd(x)))
	}
	return float16.FromF16(float16.ToF16(float16.RoundToOdd(x)))
}

// lowest and highest are the neutral elements of maximum and minimum.
func lowest[T number]() T {
	var zero T
	switch p := any(&zero).(type) {
	case *float32:
		*p = float32(math.Inf(-1))
	case *float64:
		*p = math.Inf(-1)
	case *int8:
		*p = math.MinInt8
	case *int16:
		*p = math.MinInt16
	case *int32:
		*p = math.MinInt32
	case *int64:
		*p = math.MinInt64
	}
	return zero
}

func highest[T number]() T {
	var zero T
	switch p := any(&zero).(type) {
	case *float32:
		*p = float32(math.Inf(1))
	case *float64:
		*p = math.Inf(1)
	case *int8:
		*p = math.MaxInt8
	case *int16:
		*p = math.MaxInt16
	case *int32:
		*p = math.MaxInt32
	case *int64:
		*p = math.MaxInt64
	case *uint8:
		*p = math.MaxUint8
	case *uint16:
		*p = math.MaxUint16
	case *uint32:
		*p = math.MaxUint32
	case *uint64:
		*p = math.MaxUint64
	}
	return zero
}

// larger and smaller are NaN if either is. Of zeros, +0 is larger than -0.
func larger[T number](a, b T) T {
	if a != a || a > b || a == b && !negative(a) {
		return a
	}
	return b
}

func smaller[T number](a, b T) T {
	if a != a || a < b || a == b && !negative(b) {
		return a
	}
	return b
}

// negative reports whether a number is -0.
func negative[T number](x T) bool {
	if x != 0 {
		return false
	}
	switch z := any(x).(type) {
	case float32:
		return math.Signbit(float64(z))
	case float64:
		return math.Signbit(z)
	}
	return false
}

// toInteger cuts off, with the nearest number for what is out of range and 0 for NaN.
func toInteger[T integer](x float64) T {
	switch {
	case x != x:
		return 0
	case x <= float64(lowest[T]()):
		return lowest[T]()
	case x >= float64(highest[T]()):
		return highest[T]()
	}
	return T(x)
}
