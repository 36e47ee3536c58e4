//go:build amd64 && !noasm

package imaging

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// withoutAVX2 switches the vector code off until the test ends.
func withoutAVX2(t *testing.T) {
	before := avx2
	avx2 = false
	t.Cleanup(func() { avx2 = before })
}

func needAVX2(t testing.TB) {
	if !avx2 {
		t.Skip("no AVX2")
	}
}

// TestPortablePasses: the other tests ran with AVX2.
func TestPortablePasses(t *testing.T) {
	needAVX2(t)
	withoutAVX2(t)
	t.Run("pillow", TestResizeEqualsPillow)
	t.Run("reference", TestResizeMatchesReference)
}

// memory gives n bytes for a test, and a check that nobody wrote beside them.
type memory func(t testing.TB, n int) (b []byte, check func())

// amidGuards gives memory between bytes that must stay as they are, at any
// alignment.
func amidGuards(rng *rand.Rand) memory {
	return func(t testing.TB, n int) ([]byte, func()) {
		const guard, mark = 64, 0xa5
		at := guard + rng.IntN(32)
		all := bytes.Repeat([]byte{mark}, at+n+guard)
		return all[at:][:n:n], func() {
			t.Helper()
			if bytes.Count(all[:at], []byte{mark}) != at || bytes.Count(all[at+n:], []byte{mark}) != guard {
				t.Fatalf("bytes beside %d were written", n)
			}
		}
	}
}

func fill(rng *rand.Rand, b []byte) {
	extreme := rng.IntN(4) == 0
	for i := range b {
		b[i] = byte(rng.Uint32())
		if extreme {
			b[i] = 255
		}
	}
}

// compareHorizontal runs both versions of a horizontal pass.
func compareHorizontal(t testing.TB, rng *rand.Rand, a axis, mem memory) {
	t.Helper()
	var f filter
	f.compute(a)
	for _, c := range []struct {
		channels int
		vector   func(dst, src []byte, f *filter)
		portable func(first int, dst, src []byte, f *filter)
	}{
		{3, horizontalRGB, horizontalRGBFrom},
		{1, horizontalPlane, horizontalPlaneFrom},
	} {
		src, _ := mem(t, c.channels*(f.hi-f.lo))
		fill(rng, src)
		want := make([]byte, c.channels*a.n)
		c.portable(0, want, src, &f)
		got, check := mem(t, len(want))
		c.vector(got, src, &f)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d channels, %+v: vector and portable code differ", c.channels, a)
		}
		check()
	}
}

// compareVertical runs both versions of the vertical pass.
func compareVertical(t testing.TB, rng *rand.Rand, n, taps int, mem memory) {
	t.Helper()
	weight := make([]uint32, taps)
	rest := uint32(1<<weightBits + taps/2) // rounding errors may add up to that
	for i := range weight {
		weight[i] = rng.Uint32N(rest + 1)
		if i == taps-1 {
			weight[i] = rest
		}
		rest -= weight[i]
	}
	lines, padded := make([][]byte, taps), make([][]byte, taps)
	for i := range lines {
		lines[i], _ = mem(t, n)
		fill(rng, lines[i])
		padded[i] = append(bytes.Clone(lines[i]), make([]byte, 8)...)
	}
	if n < 32 { // left to the portable code, which reads up to 8
		lines = padded
	}
	want := make([]byte, n)
	verticalWords(want, padded, weight)
	got, check := mem(t, n)
	vertical(got, lines, weight)
	if !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, %d lines: vector and portable code differ", n, taps)
	}
	check()
}

func randomAxis(rng *rand.Rand) axis {
	a := axis{in: 1 + rng.IntN(200), out: 1 + rng.IntN(120), shift: rng.IntN(3)}
	a.first = rng.IntN(a.out)
	a.n = 1 + rng.IntN(a.out-a.first)
	return a
}

func TestVectorPasses(t *testing.T) {
	needAVX2(t)
	rng := rand.New(rand.NewPCG(7, 8))
	for range 1500 {
		compareHorizontal(t, rng, randomAxis(rng), amidGuards(rng))
		compareVertical(t, rng, 1+rng.IntN(200), 1+rng.IntN(12), amidGuards(rng))
	}
}

func FuzzVectorPasses(f *testing.F) {
	needAVX2(f)
	f.Add(uint16(500), uint16(299), uint16(37), uint16(224), uint8(0), uint64(1))
	f.Add(uint16(375), uint16(224), uint16(0), uint16(224), uint8(1), uint64(2))
	f.Fuzz(func(t *testing.T, in, out, first, n uint16, shift uint8, seed uint64) {
		a := axis{in: max(1, int(in%2048)), out: max(1, int(out%1024)), shift: int(shift % 3)}
		a.first = int(first) % a.out
		a.n = 1 + int(n)%(a.out-a.first)
		rng := rand.New(rand.NewPCG(seed, 0))
		compareHorizontal(t, rng, a, amidGuards(rng))
		compareVertical(t, rng, a.n, 1+int(in)%40, amidGuards(rng))
	})
}
