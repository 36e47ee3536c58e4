//go:build amd64 && !noasm

package imaging

import "golang.org/x/sys/cpu"

// avx2 chooses the vector code; tests switch it off.
var avx2 = cpu.X86.HasAVX2

// horizontalRGB scales a row of RGB samples; src begins at sample f.lo.
func horizontalRGB(dst, src []byte, f *filter) {
	done := 0
	if n := f.ahead &^ 3; avx2 && n > 0 {
		dst, src = dst[:3*f.n], src[:3*(f.hi-f.lo)]
		horizontalRGBAVX2(&dst[0], &src[0], &f.start[0], &f.weight[0], f.lo, f.stride, n)
		done = n
	}
	horizontalRGBFrom(done, dst, src, f)
}

// horizontalPlane is horizontalRGB for samples of one byte.
func horizontalPlane(dst, src []byte, f *filter) {
	done := 0
	if n := f.ahead &^ 3; avx2 && n > 0 {
		dst, src = dst[:f.n], src[:f.hi-f.lo]
		horizontalPlaneAVX2(&dst[0], &src[0], &f.start[0], &f.weight[0], f.lo, f.stride, n)
		done = n
	}
	horizontalPlaneFrom(done, dst, src, f)
}

// vertical writes the weighted sum of lines, which are as long as dst rounded
// up to 8.
func vertical(dst []byte, lines [][]byte, weight []uint32) {
	if !avx2 || len(dst) < 32 {
		verticalWords(dst, lines, weight)
		return
	}
	verticalAVX2(&dst[0], &lines[0], &weight[0], len(lines), len(dst))
}

// horizontalRGBAVX2 makes n outputs, a multiple of four above zero. src is
// sample number lo. From the start of each output on it loads taps samples, a
// multiple of four above zero, and four bytes.
//
//go:noescape
func horizontalRGBAVX2(dst, src *byte, start *int32, weight *uint32, lo, taps, n int)

// horizontalPlaneAVX2 is horizontalRGBAVX2 for samples of one byte, and loads
// nothing beyond the taps.
//
//go:noescape
func horizontalPlaneAVX2(dst, src *byte, start *int32, weight *uint32, lo, taps, n int)

// verticalAVX2 makes n >= 32 bytes of as many from each of taps >= 1 lines.
//
//go:noescape
func verticalAVX2(dst *byte, lines *[]byte, weight *uint32, taps, n int)
