// Package reduce combines values of ranks on the host.
package reduce

import (
	"unsafe"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/parallel"
)

// Into combines sends, in their order, into each of recvs. An element is read from all
// sends before it is written. Those of 16 bits are combined as float32 and rounded once.
func Into(recvs, sends [][]byte, t dtype.DType, op parallel.Op) {
	switch t {
	case dtype.F16:
		reduce16(recvs, sends, op, float16.FromF16, float16.ToF16)
	case dtype.BF16:
		reduce16(recvs, sends, op, float16.FromBF16, float16.ToBF16)
	case dtype.F32:
		combine[float32](recvs, sends, op)
	case dtype.F64:
		combine[float64](recvs, sends, op)
	case dtype.I8:
		combine[int8](recvs, sends, op)
	case dtype.U8:
		combine[uint8](recvs, sends, op)
	case dtype.I32:
		combine[int32](recvs, sends, op)
	case dtype.U32:
		combine[uint32](recvs, sends, op)
	case dtype.I64:
		combine[int64](recvs, sends, op)
	case dtype.U64:
		combine[uint64](recvs, sends, op)
	}
}

type number interface {
	int8 | uint8 | int32 | uint32 | int64 | uint64 | float32 | float64
}

func combine[T number](recvs, sends [][]byte, op parallel.Op) {
	in, out := views[T](sends), views[T](recvs)
	const stretch = 512
	var sums [stretch]T
	for at := 0; at < len(in[0]); at += stretch {
		sum := sums[:min(stretch, len(in[0])-at)]
		copy(sum, in[0][at:])
		for _, x := range in[1:] {
			accumulate(sum, x[at:][:len(sum)], op)
		}
		if op == parallel.Avg {
			for i := range sum {
				sum[i] /= T(len(in))
			}
		}
		for _, x := range out {
			copy(x[at:], sum)
		}
	}
}

func reduce16(recvs, sends [][]byte, op parallel.Op, widen func(uint16) float32, narrow func(float32) uint16) {
	in, out := views[uint16](sends), views[uint16](recvs)
	const stretch = 512
	var sums, wide [stretch]float32
	for at := 0; at < len(in[0]); at += stretch {
		n := min(stretch, len(in[0])-at)
		for k, x := range in {
			to := wide[:n]
			if k == 0 {
				to = sums[:n]
			}
			for i, v := range x[at:][:n] {
				to[i] = widen(v)
			}
			if k > 0 {
				accumulate(sums[:n], to, op)
			}
		}
		for i, v := range sums[:n] {
			if op == parallel.Avg {
				v /= float32(len(in))
			}
			narrowed := narrow(v)
			for _, x := range out {
				x[at+i] = narrowed
			}
		}
	}
}

// accumulate combines x into sum, element by element. Of NaNs, min and max make NaN.
func accumulate[T number](sum, x []T, op parallel.Op) {
	switch op {
	case parallel.Prod:
		for i, v := range x {
			sum[i] *= v
		}
	case parallel.Min:
		for i, v := range x {
			sum[i] = min(sum[i], v)
		}
	case parallel.Max:
		for i, v := range x {
			sum[i] = max(sum[i], v)
		}
	default:
		for i, v := range x {
			sum[i] += v
		}
	}
}

func views[T any](list [][]byte) [][]T {
	out := make([][]T, len(list))
	for i, b := range list {
		out[i] = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
	}
	return out
}
