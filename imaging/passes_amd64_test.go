//go:build amd64 && !noasm

package imaging

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func needAVX2(t testing.TB) {
	if !avx2 {
		t.Skip("no AVX2")
	}
}

// extensions runs a test with each kind of vector code that this processor
// has.
func extensions(t *testing.T, test func(t *testing.T)) {
	needAVX2(t)
	if avx512 {
		t.Run("avx512", test)
		avx512 = false
		defer func() { avx512 = true }()
	}
	t.Run("avx2", test)
}

// TestOtherPasses: the other tests ran with the widest vector code.
func TestOtherPasses(t *testing.T) {
	pass := func(t *testing.T) {
		t.Run("pillow", TestResizeEqualsPillow)
		t.Run("plans", TestPlansEqualPillow)
		t.Run("reference", TestResizeMatchesReference)
	}
	extensions(t, pass)
	wide, wider := avx2, avx512
	avx2, avx512 = false, false
	defer func() { avx2, avx512 = wide, wider }()
	t.Run("portable", pass)
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

// compareHorizontal runs both versions of the horizontal passes.
func compareHorizontal(t testing.TB, rng *rand.Rand, a axis, mem memory) {
	t.Helper()
	var f table
	f.compute(a)
	// One to four rows of RGB, which get a byte more than they need.
	var got, src [][]byte
	var checks []func()
	for range 1 + rng.IntN(rowsAtOnce) {
		in, _ := mem(t, 3*(f.hi-f.lo))
		fill(rng, in)
		out, check := mem(t, 3*a.N+1)
		src, got, checks = append(src, in), append(got, out), append(checks, check)
	}
	horizontalRGB(got, src, &f)
	want := make([]byte, 3*a.N)
	for i := range got {
		horizontalRGBOf(0, a.N, want, src[i], &f)
		if !bytes.Equal(got[i][:3*a.N], want) {
			t.Fatalf("row %d of %d, %+v: vector and portable code differ", i, len(got), a)
		}
		checks[i]()
	}

	in, _ := mem(t, f.hi-f.lo)
	fill(rng, in)
	horizontalPlaneOf(0, a.N, want, in, &f)
	out, check := mem(t, a.N)
	horizontalPlane(out, in, &f)
	if !bytes.Equal(out, want[:a.N]) {
		t.Fatalf("plane, %+v: vector and portable code differ", a)
	}
	check()
}

// compareVertical runs both versions of the vertical pass.
func compareVertical(t testing.TB, rng *rand.Rand, n, taps int, mem memory) {
	t.Helper()
	// They add up to 1, and to 1.2 with negative ones in front.
	weight := make([]int32, taps)
	rest := int32(1<<weightBits + taps/2) // rounding errors may add up to that
	if taps > 1 {
		weight[0] = -rng.Int32N(rest / 10)
		rest -= weight[0]
	}
	for i := min(1, taps-1); i < taps; i++ {
		weight[i] = rng.Int32N(rest + 1)
		if i == taps-1 {
			weight[i] = rest
		}
		rest -= weight[i]
	}
	y := table{taps: taps, stride: (taps + 3) &^ 3}
	k := rng.IntN(3) // the number of the output
	y.weight = append(make([]int32, k*y.stride), weight...)
	y.weight = append(y.weight, make([]int32, y.stride-taps)...)

	lines, padded := make([][]byte, y.stride), make([][]byte, taps)
	for i := range lines {
		lines[i], _ = mem(t, n)
		fill(rng, lines[i])
		if i < taps {
			padded[i] = append(bytes.Clone(lines[i]), make([]byte, 8)...)
		}
	}
	if n < 32 { // left to the portable code, which reads up to 8
		lines = padded
	}
	want := make([]byte, n)
	verticalWords(want, padded, weight)
	got, check := mem(t, n)
	vertical(got, lines, &y, k)
	if !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, %d lines: vector and portable code differ", n, taps)
	}
	check()
}

func randomAxis(rng *rand.Rand, size, full int) axis {
	p := randomPlan(rng, size, 1, full)
	a := axis{
		Axis: p.X, filter: p.Filter, size: size,
		reversed: rng.IntN(2) == 0, mirror: p.Mirror,
	}
	if rng.IntN(2) == 0 {
		a.shift = rng.IntN(3)
	} else {
		a.shrink = rng.IntN(4)
	}
	return a
}

func TestVectorPasses(t *testing.T) {
	extensions(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 8))
		for range 1500 {
			compareHorizontal(t, rng, randomAxis(rng, 1+rng.IntN(200), 120), amidGuards(rng))
			compareVertical(t, rng, 1+rng.IntN(300), 1+rng.IntN(12), amidGuards(rng))
		}
	})
}

func FuzzVectorPasses(f *testing.F) {
	needAVX2(f)
	f.Add(uint16(500), uint16(299), uint64(1))
	f.Add(uint16(375), uint16(224), uint64(2))
	f.Fuzz(func(t *testing.T, size, full uint16, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		a := randomAxis(rng, max(1, int(size%2048)), max(1, int(full%1024)))
		extensions(t, func(t *testing.T) {
			compareHorizontal(t, rng, a, amidGuards(rng))
			compareVertical(t, rng, a.N, 1+int(size)%40, amidGuards(rng))
		})
	})
}
