package mpi

import (
	"unsafe"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/parallel"
)

// conversion is how elements are combined: as they are, but those of 16 bits, which MPI
// does not have, as float32.
type conversion struct {
	mpiType          int
	bytes, wideBytes int                     // of an element
	widen            func(wide, from []byte) // before MPI combines them
	narrow           func(to, wide []byte)   // after; it may change wide
}

func converter(t dtype.DType, op parallel.Op, ranks int) conversion {
	c := conversion{mpiType: types[t], bytes: t.Size(), wideBytes: t.Size(), widen: move, narrow: move}
	divisor := 1
	if op == parallel.Avg {
		divisor = ranks
	}
	switch t {
	case dtype.F16:
		c = sixteen(float16.FromF16, float16.ToF16, float32(divisor))
	case dtype.BF16:
		c = sixteen(float16.FromBF16, float16.ToBF16, float32(divisor))
	case dtype.F32:
		c.narrow = divide(float32(divisor))
	case dtype.F64:
		c.narrow = divide(float64(divisor))
	}
	return c
}

func move(to, from []byte) { copy(to, from) }

func divide[T float32 | float64](by T) func(to, wide []byte) {
	if by == 1 {
		return move
	}
	return func(to, wide []byte) {
		out, in := elements[T](to), elements[T](wide)
		for i := range out {
			out[i] = in[i] / by
		}
	}
}

func sixteen(from func(uint16) float32, to func(float32) uint16, divisor float32) conversion {
	return conversion{mpiType: typeFloat, bytes: 2, wideBytes: 4,
		widen: func(wide, b []byte) {
			out := elements[float32](wide)
			for i, v := range elements[uint16](b) {
				out[i] = from(v)
			}
		},
		narrow: func(b, wide []byte) {
			in := elements[float32](wide)
			for i, out := 0, elements[uint16](b); i < len(out); i++ {
				out[i] = to(in[i] / divisor)
			}
		},
	}
}

func elements[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}
