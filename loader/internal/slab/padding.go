package slab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
)

// ErrTooLong: a sample is longer than its place.
var ErrTooLong = errors.New("sample too long")

// Padding is the bytes of one element that short samples are padded with; nil
// stands for zeros.
type Padding []byte

// NewPadding makes padding of a value.
func NewPadding(v float64, t dtype.DType) (Padding, error) {
	b := make([]byte, 8)
	exact := v == math.Trunc(v) && math.Abs(v) <= 1<<53
	in := func(low, high float64) bool { return exact && v >= low && v <= high }
	// A value may be rounded, but not to infinity.
	fits := func(rounded float32) bool { return !math.IsInf(float64(rounded), 0) || math.IsInf(v, 0) }
	ok := true
	switch t {
	case dtype.U8:
		ok = in(0, math.MaxUint8)
		b[0] = byte(v)
	case dtype.I8:
		ok = in(math.MinInt8, math.MaxInt8)
		b[0] = byte(int8(v))
	case dtype.U16:
		ok = in(0, math.MaxUint16)
		binary.LittleEndian.PutUint16(b, uint16(v))
	case dtype.I16:
		ok = in(math.MinInt16, math.MaxInt16)
		binary.LittleEndian.PutUint16(b, uint16(int16(v)))
	case dtype.I32:
		ok = in(math.MinInt32, math.MaxInt32)
		binary.LittleEndian.PutUint32(b, uint32(int32(v)))
	case dtype.I64:
		ok = exact
		binary.LittleEndian.PutUint64(b, uint64(int64(v)))
	case dtype.F32:
		ok = fits(float32(v))
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(v)))
	case dtype.F64:
		binary.LittleEndian.PutUint64(b, math.Float64bits(v))
	case dtype.F16:
		h := float16.ToF16(float16.RoundToOdd(v))
		ok = fits(float16.FromF16(h))
		binary.LittleEndian.PutUint16(b, h)
	case dtype.BF16:
		h := float16.ToBF16(float16.RoundToOdd(v))
		ok = fits(float16.FromBF16(h))
		binary.LittleEndian.PutUint16(b, h)
	default:
		ok = false
	}
	if !ok {
		return nil, fmt.Errorf("%w: Pad is %v, which no %v can be", device.ErrArgument, v, t)
	}
	for _, x := range b {
		if x != 0 {
			return b[:t.Size()], nil
		}
	}
	return nil, nil
}

// fill pads.
func (p Padding) fill(dst []byte) {
	if p == nil {
		clear(dst)
		return
	}
	for n := copy(dst, p); n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}
