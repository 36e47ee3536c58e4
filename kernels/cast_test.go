package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

var castTypes = []dtype.DType{dtype.U8, dtype.I8, dtype.U16, dtype.I16, dtype.I32, dtype.F16, dtype.BF16, dtype.F32, dtype.F64}

func TestCast(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(2, 2))
	for _, from := range castTypes {
		for _, to := range castTypes {
			for _, n := range []int{0, 1, 5, 5000 + rng.IntN(600)} {
				elements := castInput(rng, from, n)
				src := f.upload(elements, from.Size()*rng.IntN(9))
				dst := f.result(n*to.Size(), to.Size()*rng.IntN(9))
				testkit.OK(t, f.set.Cast(f.stream, dst.p, to, src.p, from, int64(n)))
				got := dst.download()
				what := fmt.Sprintf("%d elements from %v", n, from)
				if from == to {
					compare(t, what, to, got, elements)
				} else {
					var want []byte
					for i := range n {
						want = put(to, want, get(from, elements, i))
						if at := i * to.Size(); string(got[at:at+to.Size()]) != string(want[at:]) {
							t.Fatalf("%s: element %d, %g, became %x (%g), want %x (%g)", what, i, get(from, elements, i),
								got[at:at+to.Size()], get(to, got, i), want[at:], get(to, want, i))
						}
					}
				}
				src.free()
				dst.free()
			}
		}
	}
}

// TestCast16: all 65,536 values of a format of 16 bits become those of the other.
func TestCast16(t *testing.T) {
	f := open(t)
	var all []byte
	for h := range 1 << 16 {
		all = binary.LittleEndian.AppendUint16(all, uint16(h))
	}
	for _, pair := range [][2]dtype.DType{{dtype.BF16, dtype.F16}, {dtype.F16, dtype.BF16}} {
		from, to := pair[0], pair[1]
		src, dst := f.upload(all, 0), f.result(len(all), 0)
		testkit.OK(t, f.set.Cast(f.stream, dst.p, to, src.p, from, 1<<16))
		got := dst.download()
		for h := range 1 << 16 {
			if want := put(to, nil, get(from, all, h)); string(got[2*h:2*h+2]) != string(want) {
				t.Fatalf("%#04x of %v, %g, became %x, want %x of %v", h, from, get(from, all, h), got[2*h:2*h+2], want, to)
			}
		}
		src.free()
		dst.free()
	}
}

// castInput makes n elements: special values, values at and beside the places
// where rounding and range of the other types change, and random bits.
func castInput(rng *rand.Rand, t dtype.DType, n int) []byte {
	values := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 1.5, 2.5, -0.5, -1.5, 127, 127.5, 128, -128.5, -129, 254.5,
		255, 255.5, 256, 32767.5, -32768.5, 65504, 65519, 65520, 0x1p-24, 0x1p-25, 0x1.8p-25, 0x1p-149, 0x1p-150,
		2147483647, 2147483647.5, -2147483648.5, math.MaxFloat32, 0x1.ffffffp127, math.MaxFloat64,
		math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN()}
	var out []byte
	for len(out) < n*t.Size() {
		var x float64
		switch k := rng.IntN(4); {
		case len(values) > 0:
			x, values = values[0], values[1:]
		case k == 0: // random bits, signalling NaNs included
			out = append(out, binary.LittleEndian.AppendUint64(nil, rng.Uint64())[:t.Size()]...)
			continue
		case k == 1: // a tie of a 16-bit format, or right beside it
			l := layouts[[]dtype.DType{dtype.F16, dtype.BF16}[rng.IntN(2)]]
			h := uint64(rng.IntN(1 << 15))
			x = (l.decode(h) + l.decode(h+1)) / 2
			if toward := rng.IntN(3); toward > 0 {
				x = math.Nextafter(x, math.Inf(2*toward-3))
			}
		case k == 2: // a tie between integers
			x = float64(rng.IntN(1<<17)-1<<16) / 2
		default:
			x = rng.NormFloat64() * math.Exp2(rng.Float64()*60-30)
		}
		out = put(t, out, x)
	}
	return out[:n*t.Size()]
}

func BenchmarkCast(b *testing.B) {
	f := open(b)
	const n = 1 << 22
	for _, pair := range [][2]dtype.DType{{dtype.U8, dtype.F32}, {dtype.F32, dtype.F16}, {dtype.BF16, dtype.F32}, {dtype.BF16, dtype.F16}, {dtype.F32, dtype.U8}} {
		from, to := pair[0], pair[1]
		b.Run(fmt.Sprintf("%v/%v", from, to), func(b *testing.B) {
			src, dst := f.upload(make([]byte, n*from.Size()), 0), f.result(n*to.Size(), 0)
			defer src.free()
			defer dst.free()
			b.SetBytes(int64(n * (from.Size() + to.Size())))
			for b.Loop() {
				testkit.OK(b, f.set.Cast(f.stream, dst.p, to, src.p, from, n))
				testkit.OK(b, f.stream.Synchronize())
			}
		})
	}
}
