package conformance

import (
	"encoding/binary"
	"math"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/parallel"
)

// encode writes numbers as elements of type t.
func encode(t dtype.DType, x []float64) []byte {
	b := make([]byte, 0, len(x)*t.Size())
	for _, v := range x {
		switch t {
		case dtype.F16:
			b = binary.LittleEndian.AppendUint16(b, float16.ToF16(float32(v)))
		case dtype.BF16:
			b = binary.LittleEndian.AppendUint16(b, float16.ToBF16(float32(v)))
		case dtype.F32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		case dtype.F64:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		case dtype.I8, dtype.U8:
			b = append(b, byte(int64(v)))
		case dtype.I32, dtype.U32:
			b = binary.LittleEndian.AppendUint32(b, uint32(int64(v)))
		default:
			b = binary.LittleEndian.AppendUint64(b, uint64(int64(v)))
		}
	}
	return b
}

// decode is the reverse.
func decode(t dtype.DType, b []byte) []float64 {
	x := make([]float64, len(b)/t.Size())
	for i := range x {
		e := b[i*t.Size():]
		switch t {
		case dtype.F16:
			x[i] = float64(float16.FromF16(binary.LittleEndian.Uint16(e)))
		case dtype.BF16:
			x[i] = float64(float16.FromBF16(binary.LittleEndian.Uint16(e)))
		case dtype.F32:
			x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(e)))
		case dtype.F64:
			x[i] = math.Float64frombits(binary.LittleEndian.Uint64(e))
		case dtype.I8:
			x[i] = float64(int8(e[0]))
		case dtype.U8:
			x[i] = float64(e[0])
		case dtype.I32:
			x[i] = float64(int32(binary.LittleEndian.Uint32(e)))
		case dtype.U32:
			x[i] = float64(binary.LittleEndian.Uint32(e))
		default:
			x[i] = float64(int64(binary.LittleEndian.Uint64(e)))
		}
	}
	return x
}

// combined is what a reduction of all ranks' elements gives.
func combined(t dtype.DType, op parallel.Op, sends [][]byte) []float64 {
	out := decode(t, sends[0])
	for _, b := range sends[1:] {
		for i, v := range decode(t, b) {
			switch op {
			case parallel.Prod:
				out[i] *= v
			case parallel.Min:
				out[i] = min(out[i], v)
			case parallel.Max:
				out[i] = max(out[i], v)
			default:
				out[i] += v
			}
		}
	}
	if op == parallel.Avg {
		for i := range out {
			out[i] /= float64(len(sends))
		}
	}
	return out
}

// precision is how far an average may be off, of its value.
func precision(t dtype.DType) float64 {
	switch t {
	case dtype.BF16:
		return 1.0 / 128
	case dtype.F16:
		return 1.0 / 1024
	case dtype.F32:
		return 1e-6
	}
	return 1e-14
}

// sameNumbers compares the elements of got with numbers.
func (r *rank) sameNumbers(what string, t dtype.DType, got []byte, want []float64, exact bool) {
	for i, v := range decode(t, got) {
		if off := math.Abs(v - want[i]); off > 0 && (exact || off > precision(t)*math.Abs(want[i])) {
			r.fail("%s: element %d of %d is %v, want %v", what, i, len(want), v, want[i])
		}
	}
}
