//go:build amd64 && !noasm

package kernels

import "golang.org/x/sys/cpu"

// avx2 chooses the vector code; tests switch it off.
var avx2 = cpu.X86.HasAVX2

// The vector code takes 8 pixels at a time, and Go the rest of an image.
const vector = 8

func blend(p planes, ratio, other float32) {
	add := float32(rest(ratio) * other)
	for _, plane := range p[:3] {
		n := vectorised(len(plane))
		if n > 0 {
			blendAVX2(&plane[0], n, ratio, add)
		}
		blendOf(plane[n:], ratio, add)
	}
}

func saturate(p planes, ratio float32) {
	r, g, b := p.rgb()
	n := vectorised(len(r))
	if n > 0 {
		saturateAVX2(&r[0], &g[0], &b[0], n, ratio, rest(ratio))
	}
	saturateOf(r[n:], g[n:], b[n:], ratio)
}

func turn(p planes, by float32) {
	r, g, b := p.rgb()
	n := vectorised(len(r))
	if n > 0 {
		turnAVX2(&r[0], &g[0], &b[0], n, by)
	}
	turnOf(r[n:], g[n:], b[n:], by)
}

// vectorised is how many of n pixels the vector code takes.
func vectorised(n int) int {
	if !avx2 {
		return 0
	}
	return n &^ (vector - 1)
}

// n is a multiple of 8 above 0.

//go:noescape
func blendAVX2(plane *float32, n int, ratio, add float32)

//go:noescape
func saturateAVX2(red, green, blue *float32, n int, ratio, rest float32)

//go:noescape
func turnAVX2(red, green, blue *float32, n int, by float32)
