//go:build amd64 && !noasm

package kernels

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomPlanes are three planes of n pixels, each between values that must
// stay: greys, black, white, and pixels with two channels alike among them.
func randomPlanes(rng *rand.Rand, n int) (p, around planes) {
	values := []float32{0, 1, 0x1p-149, 1 - 0x1p-24, 0.5}
	for c := range 3 {
		around[c] = make([]float32, n+2)
		around[c][0], around[c][n+1] = -7, -7
		p[c] = around[c][1 : n+1]
		for i := range n {
			p[c][i] = rng.Float32()
			switch rng.IntN(4) {
			case 0:
				p[c][i] = values[rng.IntN(len(values))]
			case 1:
				p[c][i] = p[0][i]
			}
		}
	}
	return p, around
}

// TestVectorColours: the vector code gives the bits of the Go functions, and
// writes nothing else.
func TestVectorColours(t *testing.T) {
	if !avx2 {
		t.Skip("no AVX2")
	}
	defer func() { avx2 = true }()
	rng := rand.New(rand.NewPCG(30, 30))
	factors := []float32{0, 0.7, 1.3, 1e38, math.MaxFloat32, float32(math.Inf(1)), float32(math.NaN()), -2}
	hues := []float32{-0.5, 0.5, 0x1p-30, -0x1p-30, 0.25, -0.1}
	for round := range 3000 {
		p, around := randomPlanes(rng, rng.IntN(70))
		want := planes{}
		for c := range 3 {
			want[c] = slices.Clone(p[c])
		}
		by := change{mean: rng.Float32(), Colour: Colour{
			Brightness: factors[rng.IntN(len(factors))], Contrast: 2 * rng.Float32(), Saturation: factors[rng.IntN(len(factors))],
			Hue: hues[rng.IntN(len(hues))],
		}}
		operation := uint8(round % 4)
		avx2 = false
		by.apply(operation, want)
		avx2 = true
		by.apply(operation, p)
		for c := range 3 {
			for i, x := range p[c] {
				if math.Float32bits(x) != math.Float32bits(want[c][i]) {
					t.Fatalf("operation %d of %+v: channel %d of pixel %d of %d is %g, want %g", operation, by, c, i, len(p[c]), x, want[c][i])
				}
			}
			if n := len(p[c]); around[c][0] != -7 || around[c][n+1] != -7 {
				t.Fatalf("operation %d of %d pixels wrote beside them", operation, n)
			}
		}
	}
}
