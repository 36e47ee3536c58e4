package imaging

import "encoding/binary"

// The passes in Go. What vector code there is gives the same bytes and leaves
// to these the outputs that it does not reach.

// horizontalRGBFrom scales a row of RGB samples from output number first on.
// src begins at source sample f.lo.
func horizontalRGBFrom(first int, dst, src []byte, f *filter) {
	if f.taps == 4 {
		horizontalRGB4(first, dst, src, f)
		return
	}
	for i := first; i < len(f.start); i++ {
		w := f.weight[i*f.stride:][:f.taps]
		p := src[3*(int(f.start[i])-f.lo):]
		r, g, b := uint32(half), uint32(half), uint32(half)
		for len(w) >= 2 {
			q, k := (*[6]byte)(p), (*[2]uint32)(w)
			r += uint32(q[0])*k[0] + uint32(q[3])*k[1]
			g += uint32(q[1])*k[0] + uint32(q[4])*k[1]
			b += uint32(q[2])*k[0] + uint32(q[5])*k[1]
			p, w = p[6:], w[2:]
		}
		if len(w) == 1 {
			q := (*[3]byte)(p)
			r += uint32(q[0]) * w[0]
			g += uint32(q[1]) * w[0]
			b += uint32(q[2]) * w[0]
		}
		out := (*[3]byte)(dst[3*i:])
		out[0] = clip(r)
		out[1] = clip(g)
		out[2] = clip(b)
	}
}

// horizontalRGB4 is for four taps: scales of 1.5 to 2, which make inputs of
// networks out of most photos in data sets. Rounding errors of so few weights
// cannot carry a sum past 255.
func horizontalRGB4(first int, dst, src []byte, f *filter) {
	dst, weight := dst[3*first:], f.weight[4*first:]
	for i, start := range f.start[first:] {
		k := (*[4]uint32)(weight[4*i:])
		q := (*[12]byte)(src[3*(int(start)-f.lo):])
		out := (*[3]byte)(dst[3*i:])
		out[0] = byte((half + uint32(q[0])*k[0] + uint32(q[3])*k[1] + uint32(q[6])*k[2] + uint32(q[9])*k[3]) >> weightBits)
		out[1] = byte((half + uint32(q[1])*k[0] + uint32(q[4])*k[1] + uint32(q[7])*k[2] + uint32(q[10])*k[3]) >> weightBits)
		out[2] = byte((half + uint32(q[2])*k[0] + uint32(q[5])*k[1] + uint32(q[8])*k[2] + uint32(q[11])*k[3]) >> weightBits)
	}
}

// horizontalPlaneFrom is horizontalRGBFrom for samples of one byte.
func horizontalPlaneFrom(first int, dst, src []byte, f *filter) {
	if f.taps == 4 {
		dst, weight := dst[first:], f.weight[4*first:]
		for i, start := range f.start[first:] {
			k := (*[4]uint32)(weight[4*i:])
			q := (*[4]byte)(src[int(start)-f.lo:])
			dst[i] = byte((half + uint32(q[0])*k[0] + uint32(q[1])*k[1] + uint32(q[2])*k[2] + uint32(q[3])*k[3]) >> weightBits)
		}
		return
	}
	for i := first; i < len(f.start); i++ {
		w := f.weight[i*f.stride:][:f.taps]
		p := src[int(f.start[i])-f.lo:][:len(w)]
		v := uint32(half)
		for t, k := range w {
			v += uint32(p[t]) * k
		}
		dst[i] = clip(v)
	}
}

// clip rounds a weighted sum to a byte. Only rounding errors of the weights
// can carry it past 255.
func clip(sum uint32) byte { return byte(min(sum>>weightBits, 255)) }

// A 64-bit word carries two weighted sums, in its halves; four such words are
// the sums of eight bytes.
const (
	lowBytes   = 0x000000ff_000000ff // the lowest byte of both halves
	halfHalves = half | half<<32
)

// verticalWords writes the weighted sum of lines, which are as long as dst
// rounded up to 8.
func verticalWords(dst []byte, lines [][]byte, weight []uint32) {
	if len(lines) == 4 {
		verticalWords4(dst, lines, weight)
		return
	}
	weight = weight[:len(lines)]
	for x := 0; x < len(dst); x += 8 {
		a, b, c, d := uint64(halfHalves), uint64(halfHalves), uint64(halfHalves), uint64(halfHalves)
		for t, line := range lines {
			v, k := binary.LittleEndian.Uint64(line[x:]), uint64(weight[t])
			a += (v & lowBytes) * k
			b += (v >> 8 & lowBytes) * k
			c += (v >> 16 & lowBytes) * k
			d += (v >> 24 & lowBytes) * k
		}
		store(dst[x:], clip2(a)|clip2(b)<<8|clip2(c)<<16|clip2(d)<<24)
	}
}

// verticalWords4 is for four taps; see horizontalRGB4.
func verticalWords4(dst []byte, lines [][]byte, weight []uint32) {
	n := (len(dst) + 7) &^ 7
	l, w := (*[4][]byte)(lines), (*[4]uint32)(weight)
	l0, l1, l2, l3 := l[0][:n], l[1][:n], l[2][:n], l[3][:n]
	k0, k1, k2, k3 := uint64(w[0]), uint64(w[1]), uint64(w[2]), uint64(w[3])
	for x := 0; x+8 <= n; x += 8 {
		v0, v1 := binary.LittleEndian.Uint64(l0[x:x+8]), binary.LittleEndian.Uint64(l1[x:x+8])
		v2, v3 := binary.LittleEndian.Uint64(l2[x:x+8]), binary.LittleEndian.Uint64(l3[x:x+8])
		a := halfHalves + (v0&lowBytes)*k0 + (v1&lowBytes)*k1 + (v2&lowBytes)*k2 + (v3&lowBytes)*k3
		b := halfHalves + (v0>>8&lowBytes)*k0 + (v1>>8&lowBytes)*k1 + (v2>>8&lowBytes)*k2 + (v3>>8&lowBytes)*k3
		c := halfHalves + (v0>>16&lowBytes)*k0 + (v1>>16&lowBytes)*k1 + (v2>>16&lowBytes)*k2 + (v3>>16&lowBytes)*k3
		d := halfHalves + (v0>>24&lowBytes)*k0 + (v1>>24&lowBytes)*k1 + (v2>>24&lowBytes)*k2 + (v3>>24&lowBytes)*k3
		a, b = a>>weightBits&lowBytes, b>>weightBits&lowBytes
		c, d = c>>weightBits&lowBytes, d>>weightBits&lowBytes
		store(dst[x:], a|b<<8|c<<16|d<<24)
	}
}

// store writes the bytes of v that dst has room for.
func store(dst []byte, v uint64) {
	if len(dst) >= 8 {
		binary.LittleEndian.PutUint64(dst, v)
		return
	}
	for i := range dst {
		dst[i] = byte(v >> (8 * i))
	}
}

// clip2 is clip on both halves.
func clip2(sums uint64) uint64 {
	v := sums >> weightBits & 0x000001ff_000001ff
	over := v >> 8 & 0x00000001_00000001
	return (v | over*255) & lowBytes
}
