package cudac_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/cudac"
)

// C reads a literal as the same bits, so numbers keep all their digits, and what C has
// no digits for is written as bits.
func TestLiteral(t *testing.T) {
	for _, c := range []struct {
		t    dtype.DType
		bits uint64
		want string
	}{
		{dtype.Bool, 1, "true"},
		{dtype.U8, 255, "(u8)255ull"},
		{dtype.I8, 255, "(i8)255ull"},
		{dtype.U64, math.MaxUint64, "(u64)18446744073709551615ull"},
		{dtype.F64, math.Float64bits(0.1), "0.1"},
		{dtype.F64, math.Float64bits(-2), "(-2.0)"},
		{dtype.F64, math.Float64bits(math.Copysign(0, -1)), "(-0.0)"},
		{dtype.F64, 0x7ff8000000000001, "of_bits((u64)0x7ff8000000000001ull)"},
		{dtype.F32, uint64(math.Float32bits(1e-7)), "1e-07f"},
		{dtype.F32, uint64(math.Float32bits(float32(math.Inf(-1)))), "of_bits((u32)0xff800000ull)"},
		{dtype.F16, 0x3e00, "1.5f"},
		{dtype.BF16, 0x3fc0, "1.5f"},
	} {
		data := binary.LittleEndian.AppendUint64(nil, c.bits)
		if got := cudac.Literal(c.t, data); got != c.want {
			t.Errorf("%v %#x: %s, want %s", c.t, c.bits, got, c.want)
		}
	}
}

func TestElementwise(t *testing.T) {
	for _, c := range []struct {
		op   graph.Op
		in   dtype.DType
		want string
	}{
		{graph.Add, dtype.F64, "x + y"},
		{graph.Add, dtype.BF16, "round_bf16(x + y)"},
		{graph.Add, dtype.I8, "(i8)((u64)x + (u64)y)"}, // wraps
		{graph.Neg, dtype.F16, "-x"},                   // is exact
		{graph.Tanh, dtype.F32, "tanhf(x)"},
		{graph.Less, dtype.U16, "x < y"},
		{graph.LessTotalOrder, dtype.F32, "order(x) < order(y)"},
		{graph.Xor, dtype.Bool, "x != y"},
	} {
		if got, err := cudac.Elementwise(c.op, c.in, c.in, []string{"x", "y"}); err != nil || got != c.want {
			t.Errorf("%v of %v: %q, %v; want %q", c.op, c.in, got, err, c.want)
		}
	}
	for op, in := range map[graph.Op]dtype.DType{graph.Tanh: dtype.I32, graph.Xor: dtype.F32, graph.Add: dtype.Bool} {
		if _, err := cudac.Elementwise(op, in, in, []string{"x", "y"}); !errors.Is(err, step.ErrNotSupported) {
			t.Errorf("%v of %v: %v", op, in, err)
		}
	}
}
