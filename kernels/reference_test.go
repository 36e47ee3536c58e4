package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
)

// The reference goes by the definition of the formats, in float64 arithmetic
// on values; it shares no code with the kernels.

// layout is a binary floating-point format.
type layout struct {
	mantissa, exponent int // bits
	nan                uint64
}

var layouts = map[dtype.DType]layout{
	dtype.F16:  {10, 5, 0x7e00},
	dtype.BF16: {7, 8, 0x7fc0},
	dtype.F32:  {23, 8, 0x7fc00000},
}

func (l layout) bias() int { return 1<<(l.exponent-1) - 1 }

// encode rounds x to nearest, ties to even.
func (l layout) encode(x float64) uint64 {
	if math.IsNaN(x) {
		return l.nan
	}
	sign := uint64(0)
	if math.Signbit(x) {
		sign = 1 << (l.mantissa + l.exponent)
		x = -x
	}
	infinity := uint64(1<<l.exponent-1) << l.mantissa
	if math.IsInf(x, 0) {
		return sign | infinity
	}
	// As a multiple of the spacing that the format has at x, the number is
	// the mantissa with its hidden bit, and exponents follow on each other.
	exponent := 1 - l.bias()
	if x > 0 {
		_, e := math.Frexp(x)
		exponent = max(exponent, e-1)
	}
	steps := uint64(nearestEven(math.Ldexp(x, l.mantissa-exponent)))
	return sign | min(steps+uint64(exponent+l.bias()-1)<<l.mantissa, infinity)
}

func (l layout) decode(b uint64) float64 {
	sign := 1.0
	if b>>(l.mantissa+l.exponent) == 1 {
		sign = -1
	}
	e := int(b >> l.mantissa & (1<<l.exponent - 1))
	m := float64(b & (1<<l.mantissa - 1))
	switch {
	case e == 1<<l.exponent-1 && m != 0:
		return math.NaN()
	case e == 1<<l.exponent-1:
		return math.Inf(int(sign))
	case e > 0:
		m += float64(uint64(1) << l.mantissa)
	}
	return sign * math.Ldexp(m, max(e, 1)-l.bias()-l.mantissa)
}

func nearestEven(x float64) float64 {
	low := math.Floor(x)
	switch rest := x - low; {
	case rest > 0.5, rest == 0.5 && math.Mod(low, 2) != 0:
		return low + 1
	}
	return low
}

var integers = map[dtype.DType][2]float64{
	dtype.U8:  {0, 255},
	dtype.I8:  {-128, 127},
	dtype.U16: {0, 65535},
	dtype.I16: {-32768, 32767},
	dtype.I32: {-2147483648, 2147483647},
}

// get reads element i of type t.
func get(t dtype.DType, b []byte, i int) float64 {
	raw := uint64(0)
	size := t.Size()
	for k := size - 1; k >= 0; k-- {
		raw = raw<<8 | uint64(b[i*size+k])
	}
	if l, ok := layouts[t]; ok {
		return l.decode(raw)
	}
	switch t {
	case dtype.F64:
		return math.Float64frombits(raw)
	case dtype.U8, dtype.U16:
		return float64(raw)
	}
	return float64(int64(raw<<(64-8*size)) >> (64 - 8*size))
}

// put appends x, rounded to type t.
func put(t dtype.DType, b []byte, x float64) []byte {
	raw := uint64(0)
	if l, ok := layouts[t]; ok {
		raw = l.encode(x)
	} else if t == dtype.F64 {
		raw = math.Float64bits(x)
		if math.IsNaN(x) {
			raw = 0x7ff8000000000000
		}
	} else if !math.IsNaN(x) {
		limits := integers[t]
		raw = uint64(int64(nearestEven(math.Max(limits[0], math.Min(x, limits[1])))))
	}
	return append(b, binary.LittleEndian.AppendUint64(nil, raw)[:t.Size()]...)
}

// TestReference checks the reference on values known from the formats.
func TestReference(t *testing.T) {
	for _, c := range []struct {
		t    dtype.DType
		x    float64
		want string
	}{
		{dtype.F16, 1, "003c"}, {dtype.F16, -2, "00c0"}, {dtype.F16, 65519.9, "ff7b"}, {dtype.F16, 65520, "007c"},
		{dtype.F16, 0x1p-24, "0100"}, {dtype.F16, 0x1p-25, "0000"}, {dtype.F16, 0x1.002p0, "003c"}, {dtype.F16, 0x1.006p0, "023c"},
		{dtype.F16, math.NaN(), "007e"}, {dtype.F16, math.Copysign(0, -1), "0080"},
		{dtype.BF16, 1, "803f"}, {dtype.BF16, 0x1.01p0, "803f"}, {dtype.BF16, 0x1.03p0, "823f"}, {dtype.BF16, 1e300, "807f"},
		{dtype.F32, 0.1, "cdcccc3d"}, {dtype.F32, -math.MaxFloat64, "000080ff"}, {dtype.F32, 0x1p-149, "01000000"},
		{dtype.U8, 2.5, "02"}, {dtype.U8, 3.5, "04"}, {dtype.U8, -1, "00"}, {dtype.U8, 1e9, "ff"}, {dtype.U8, math.NaN(), "00"},
		{dtype.I8, -1000, "80"}, {dtype.I16, -1.5, "feff"}, {dtype.I32, math.Inf(1), "ffffff7f"},
	} {
		if got := fmt.Sprintf("%x", put(c.t, nil, c.x)); got != c.want {
			t.Errorf("%v of %g: %s, want %s", c.t, c.x, got, c.want)
		}
	}
}
