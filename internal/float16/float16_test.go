package float16

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// format is a binary floating-point format for the reference below, which
// goes by the definition: values, not bits.
type format struct {
	name         string
	precision    int // bits of the significand, the hidden one included
	minExp       int // of the smallest normal value, 2^minExp
	mantissaBits uint
	expMask      uint16
	bias         int
	nan          uint16
	to           func(float32) uint16
	from         func(uint16) float32
}

var formats = []format{
	{"F16", 11, -14, 10, 0x1f, 15, NaNF16, ToF16, FromF16},
	{"BF16", 8, -126, 7, 0xff, 127, NaNBF16, ToBF16, FromBF16},
}

// decode gives the value of h by the textbook formula.
func (f format) decode(h uint16) float64 {
	sign := 1.0
	if h>>15 == 1 {
		sign = -1
	}
	exp := int(h >> f.mantissaBits & f.expMask)
	mantissa := float64(h & (1<<f.mantissaBits - 1))
	switch exp {
	case 0:
		return sign * math.Ldexp(mantissa, f.minExp-int(f.mantissaBits))
	case int(f.expMask):
		if mantissa != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1+math.Ldexp(mantissa, -int(f.mantissaBits)), exp-f.bias)
}

// round gives the value nearest to x, by division through the spacing of the
// format at x.
func (f format) round(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	_, exp := math.Frexp(x) // |x| in [2^(exp-1), 2^exp)
	spacing := max(exp-1, f.minExp) - (f.precision - 1)
	rounded := math.Ldexp(math.RoundToEven(math.Ldexp(x, -spacing)), spacing)
	if math.Abs(rounded) >= math.Ldexp(1, int(f.expMask)-f.bias) {
		return math.Inf(int(math.Copysign(1, x)))
	}
	return rounded
}

func (f format) check(t *testing.T, x float32) {
	t.Helper()
	got := f.to(x)
	if math.IsNaN(float64(x)) {
		if got != f.nan {
			t.Fatalf("%s of NaN %#08x = %#04x, want %#04x", f.name, math.Float32bits(x), got, f.nan)
		}
		return
	}
	want := f.round(float64(x))
	value := f.decode(got)
	if value != want || math.Signbit(value) != math.Signbit(want) {
		t.Fatalf("%s of %g (%#08x) = %#04x, that is %g, want %g", f.name, x, math.Float32bits(x), got, value, want)
	}
}

func TestWidenEveryValue(t *testing.T) {
	for _, f := range formats {
		for h := range 1 << 16 {
			got, want := f.from(uint16(h)), f.decode(uint16(h))
			switch {
			case math.IsNaN(want):
				if math.Float32bits(got) != NaN32 {
					t.Fatalf("%s %#04x = %#08x, want the NaN %#08x", f.name, h, math.Float32bits(got), NaN32)
				}
			case float64(got) != want || math.Signbit(float64(got)) != math.Signbit(want):
				t.Fatalf("%s %#04x = %g, want %g", f.name, h, got, want)
			case f.to(got) != uint16(h):
				t.Fatalf("%s %#04x comes back as %#04x", f.name, h, f.to(got))
			}
		}
	}
}

// TestNarrowAroundEveryValue tries each value, the ties to both sides of it,
// and the float32 numbers next to all of these.
func TestNarrowAroundEveryValue(t *testing.T) {
	for _, f := range formats {
		for h := range 1 << 16 {
			b := math.Float32bits(f.from(uint16(h)))
			if f.name == "F16" {
				half := uint32(1) << 12
				for _, at := range []uint32{b, b + half, b - half} {
					for _, x := range []uint32{at - 1, at, at + 1} {
						f.check(t, math.Float32frombits(x))
					}
				}
				continue
			}
			for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
				f.check(t, math.Float32frombits(uint32(h)<<16|low))
			}
		}
	}
}

func TestNarrowRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, f := range formats {
		for range 300_000 {
			f.check(t, math.Float32frombits(rng.Uint32()))
			f.check(t, float32(rng.NormFloat64()*math.Exp2(rng.Float64()*48-30)))
		}
	}
}

func TestRoundToOdd(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	values := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64,
		math.SmallestNonzeroFloat64, math.MaxFloat32, 0x1.ffffffp127, 0x1p-150, -0x1p-149, 65519.999999999, 65520}
	for range 200_000 {
		values = append(values, math.Float64frombits(rng.Uint64()))
		// A tie of one of the formats, or a hair beside it: where rounding
		// twice goes wrong.
		h := uint16(rng.Uint32())
		f := formats[rng.IntN(2)]
		tie := f.decode(h&^f.expField()|f.someExp(rng)) * (1 + math.Ldexp(1, -f.precision))
		values = append(values, tie, math.Nextafter(tie, 0), math.Nextafter(tie, math.Inf(1)))
	}
	for _, x := range values {
		odd := RoundToOdd(x)
		if math.IsNaN(x) {
			if odd == odd {
				t.Fatalf("RoundToOdd(NaN) = %g", odd)
			}
			continue
		}
		if float64(odd) != x {
			// Inexact: odd, and a neighbour of x.
			if math.Float32bits(odd)&1 != 1 || math.Signbit(float64(odd)) != math.Signbit(x) {
				t.Fatalf("RoundToOdd(%g) = %g (%#08x), not odd", x, odd, math.Float32bits(odd))
			}
			if x32 := float32(x); odd != x32 && math.Nextafter32(odd, x32) != x32 {
				t.Fatalf("RoundToOdd(%g) = %g, not next to it", x, odd)
			}
		}
		for _, f := range formats {
			if got, want := f.decode(f.to(odd)), f.round(x); got != want {
				t.Fatalf("%s of %g = %g, want %g", f.name, x, got, want)
			}
		}
	}
}

func (f format) expField() uint16 { return f.expMask << f.mantissaBits }

func (f format) someExp(rng *rand.Rand) uint16 {
	return uint16(1+rng.IntN(int(f.expMask)-1)) << f.mantissaBits
}

// TestReference checks the reference itself on values that the formats'
// definitions give.
func TestReference(t *testing.T) {
	f16, bf16 := formats[0], formats[1]
	for _, c := range []struct{ got, want float64 }{
		{f16.round(65519.99), 65504}, {f16.round(65520), math.Inf(1)}, {f16.round(0x1p-25), 0},
		{f16.round(0x1.8p-25), 0x1p-24}, {f16.round(2049), 2048}, {f16.round(2051), 2052},
		{bf16.round(257), 256}, {bf16.round(259), 260}, {bf16.round(3.4e38), math.Inf(1)},
		{f16.decode(0x3555), 0.333251953125}, {bf16.decode(0x4049), 3.140625},
	} {
		if c.got != c.want {
			t.Errorf("got %g, want %g", c.got, c.want)
		}
	}
	if x := new(big.Float).SetPrec(11).SetFloat64(0.1); f16.round(0.1) != must64(x) {
		t.Errorf("0.1 rounds to %g, big.Float says %v", f16.round(0.1), x)
	}
}

func must64(x *big.Float) float64 { v, _ := x.Float64(); return v }

func Example() {
	h := ToF16(0.1)
	fmt.Printf("%#04x %v\n", h, FromF16(h))
	b := ToBF16(0.1)
	fmt.Printf("%#04x %v\n", b, FromBF16(b))
	// Output:
	// 0x2e66 0.099975586
	// 0x3dcd 0.100097656
}

func BenchmarkToF16(b *testing.B)   { benchmarkNarrow(b, ToF16) }
func BenchmarkToBF16(b *testing.B)  { benchmarkNarrow(b, ToBF16) }
func BenchmarkFromF16(b *testing.B) { benchmarkWiden(b, FromF16) }

func benchmarkNarrow(b *testing.B, f func(float32) uint16) {
	src := make([]float32, 4096)
	for i := range src {
		src[i] = float32(i)*0.01 - 20
	}
	dst := make([]uint16, len(src))
	b.SetBytes(int64(len(src)) * 4)
	for b.Loop() {
		for i, x := range src {
			dst[i] = f(x)
		}
	}
}

func benchmarkWiden(b *testing.B, f func(uint16) float32) {
	src := make([]uint16, 4096)
	for i := range src {
		src[i] = uint16(i * 7)
	}
	dst := make([]float32, len(src))
	b.SetBytes(int64(len(src)) * 2)
	for b.Loop() {
		for i, x := range src {
			dst[i] = f(x)
		}
	}
}
