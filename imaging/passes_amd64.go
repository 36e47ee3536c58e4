//go:build amd64 && !noasm

package imaging

import "golang.org/x/sys/cpu"

// These choose the vector code; tests switch it off. avx512 is for AVX2 as well.
var (
	avx2   = cpu.X86.HasAVX2
	avx512 = avx2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VNNI
)

// horizontalRGB scales up to rowsAtOnce rows of RGB samples; src begin at
// sample t.lo. Rows of dst have room for one byte beyond their end.
func horizontalRGB(dst, src [][]byte, t *table) {
	from, to := 0, 0
	if avx2 && t.from < t.to {
		from, to = t.from, t.to
		var d, s [rowsAtOnce]*byte
		for i := range d { // rows that are not there are the last one again
			row := min(i, len(dst)-1)
			d[i] = &dst[row][:3*t.N+1][3*from]
			s[i] = &src[row][:3*(t.hi-t.lo)][0]
		}
		halves := t.split()
		if avx512 {
			horizontalRGBAVX512(&d, &s, &t.start[from], &halves[2*from*t.stride], t.lo, t.stride, to-from)
		} else {
			horizontalRGBAVX2(&d, &s, &t.start[from], &halves[2*from*t.stride], t.lo, t.stride, to-from)
		}
	}
	if to-from == t.N {
		return
	}
	for i := range dst {
		horizontalRGBOf(0, from, dst[i], src[i], t)
		horizontalRGBOf(to, t.N, dst[i], src[i], t)
	}
}

// Weights are multiplied in two halves: 16-bit products of two samples are
// one instruction, and the upper halves are small enough for any filter.
const lowerBits = 11

// split returns the weights in halves: for each four, the upper ones and then
// the lower ones.
func (t *table) split() []int16 {
	if len(t.halves) == 0 {
		t.halves = resized(t.halves, 2*len(t.weight))
		for i, w := range t.weight {
			at := 2*(i&^3) | i&3
			t.halves[at] = int16(w >> lowerBits)
			t.halves[at+4] = int16(w & (1<<lowerBits - 1))
		}
	}
	return t.halves
}

// horizontalPlane scales a row of samples of one byte.
func horizontalPlane(dst, src []byte, t *table) {
	from, to := 0, 0
	if n := (t.to - t.from) &^ 3; avx2 && n > 0 {
		from, to = t.from, t.from+n
		dst, src = dst[:t.N], src[:t.hi-t.lo]
		horizontalPlaneAVX2(&dst[from], &src[0], &t.start[from], &t.weight[from*t.stride], t.lo, t.stride, n)
	}
	horizontalPlaneOf(0, from, dst, src, t)
	horizontalPlaneOf(to, t.N, dst, src, t)
}

// vertical writes output k of the table: the weighted sum of lines, which are
// as long as dst rounded up to 8. Behind them there are some more that may be
// read, up to t.stride in all.
func vertical(dst []byte, lines [][]byte, t *table, k int) {
	switch n := len(dst); {
	case avx512 && n >= 64:
		verticalAVX512(&dst[0], &lines[0], &t.split()[2*k*t.stride], t.taps, n)
	case avx2 && n >= 32:
		verticalAVX2(&dst[0], &lines[0], &t.weight[k*t.stride], t.taps, n)
	default:
		verticalWords(dst, lines[:t.taps], t.weight[k*t.stride:])
	}
}

// horizontalRGBAVX2 makes n >= 1 outputs in each of four rows. src is sample
// number lo. From the start of each output on it loads taps samples, a
// multiple of four above zero, and four bytes. It writes one byte beyond the
// outputs.
//
//go:noescape
func horizontalRGBAVX2(dst, src *[rowsAtOnce]*byte, start *int32, halves *int16, lo, taps, n int)

// horizontalPlaneAVX2 makes n outputs, a multiple of four above zero, in one
// row, from samples of one byte. It loads nothing beyond the taps.
//
//go:noescape
func horizontalPlaneAVX2(dst, src *byte, start *int32, weight *int32, lo, taps, n int)

// horizontalRGBAVX512 is horizontalRGBAVX2.
//
//go:noescape
func horizontalRGBAVX512(dst, src *[rowsAtOnce]*byte, start *int32, halves *int16, lo, taps, n int)

// verticalAVX2 makes n >= 32 bytes of as many from each of taps >= 1 lines.
//
//go:noescape
func verticalAVX2(dst *byte, lines *[]byte, weight *int32, taps, n int)

// verticalAVX512 makes n >= 64 bytes of as many from each of taps >= 1 lines,
// and reads one line more if taps is odd.
//
//go:noescape
func verticalAVX512(dst *byte, lines *[]byte, halves *int16, taps, n int)
