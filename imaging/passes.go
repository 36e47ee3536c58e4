package imaging

import "encoding/binary"

// The passes in Go. What vector code there is gives the same bytes and leaves
// to these the outputs that it does not reach.

// horizontalRGBOf scales a row of RGB samples to the outputs from <= i < to.
// src begins at source sample t.lo.
func horizontalRGBOf(from, to int, dst, src []byte, t *table) {
	if t.taps == 4 {
		horizontalRGB4(from, to, dst, src, t)
		return
	}
	for i := from; i < to; i++ {
		w := t.weight[i*t.stride:][:t.taps]
		p := src[3*(int(t.start[i])-t.lo):]
		r, g, b := int32(half), int32(half), int32(half)
		for len(w) >= 2 {
			q, k := (*[6]byte)(p), (*[2]int32)(w)
			r += int32(q[0])*k[0] + int32(q[3])*k[1]
			g += int32(q[1])*k[0] + int32(q[4])*k[1]
			b += int32(q[2])*k[0] + int32(q[5])*k[1]
			p, w = p[6:], w[2:]
		}
		if len(w) == 1 {
			q := (*[3]byte)(p)
			r += int32(q[0]) * w[0]
			g += int32(q[1]) * w[0]
			b += int32(q[2]) * w[0]
		}
		out := (*[3]byte)(dst[3*i:])
		out[0] = clip(r)
		out[1] = clip(g)
		out[2] = clip(b)
	}
}

// horizontalRGB4 is for four taps: scales of 1.5 to 2, which make inputs of
// networks out of most photos in data sets.
func horizontalRGB4(from, to int, dst, src []byte, t *table) {
	if from == to {
		return
	}
	dst, weight := dst[3*from:], t.weight[4*from:]
	for i, start := range t.start[from:to] {
		k := (*[4]int32)(weight[4*i:])
		q := (*[12]byte)(src[3*(int(start)-t.lo):])
		out := (*[3]byte)(dst[3*i:])
		out[0] = clip(half + int32(q[0])*k[0] + int32(q[3])*k[1] + int32(q[6])*k[2] + int32(q[9])*k[3])
		out[1] = clip(half + int32(q[1])*k[0] + int32(q[4])*k[1] + int32(q[7])*k[2] + int32(q[10])*k[3])
		out[2] = clip(half + int32(q[2])*k[0] + int32(q[5])*k[1] + int32(q[8])*k[2] + int32(q[11])*k[3])
	}
}

// horizontalPlaneOf is horizontalRGBOf for samples of one byte.
func horizontalPlaneOf(from, to int, dst, src []byte, t *table) {
	for i := from; i < to; i++ {
		w := t.weight[i*t.stride:][:t.taps]
		p := src[int(t.start[i])-t.lo:][:len(w)]
		v := int32(half)
		for j, k := range w {
			v += int32(p[j]) * k
		}
		dst[i] = clip(v)
	}
}

// clip rounds a weighted sum to a byte. It is rarely outside.
func clip(sum int32) byte {
	v := sum >> weightBits
	if uint32(v) > 255 {
		return byte(^v >> 31) // 0 below, 255 above
	}
	return byte(v)
}

// A 64-bit word carries two weighted sums, in its halves; four such words are
// the sums of eight bytes. Sums begin high enough to stay above zero, so that
// the lower one borrows nothing from the upper one.
const (
	lowBytes = 0x000000ff_000000ff // the lowest byte of both halves
	lowBits  = 0x00000001_00000001
	raised   = 256
	begin    = raised<<weightBits | half
	begin2   = begin | begin<<32
)

// verticalWords writes the weighted sum of lines, which are as long as dst
// rounded up to 8.
func verticalWords(dst []byte, lines [][]byte, weight []int32) {
	if len(lines) == 4 {
		verticalWords4(dst, lines, weight)
		return
	}
	weight = weight[:len(lines)]
	for x := 0; x < len(dst); x += 8 {
		a, b, c, d := uint64(begin2), uint64(begin2), uint64(begin2), uint64(begin2)
		for t, line := range lines {
			v, k := binary.LittleEndian.Uint64(line[x:]), uint64(weight[t]) // with its sign
			a += (v & lowBytes) * k
			b += (v >> 8 & lowBytes) * k
			c += (v >> 16 & lowBytes) * k
			d += (v >> 24 & lowBytes) * k
		}
		store(dst[x:], clip2(a)|clip2(b)<<8|clip2(c)<<16|clip2(d)<<24)
	}
}

// verticalWords4 is for four taps; see horizontalRGB4.
func verticalWords4(dst []byte, lines [][]byte, weight []int32) {
	n := (len(dst) + 7) &^ 7
	l, w := (*[4][]byte)(lines), (*[4]int32)(weight)
	l0, l1, l2, l3 := l[0][:n], l[1][:n], l[2][:n], l[3][:n]
	k0, k1, k2, k3 := uint64(w[0]), uint64(w[1]), uint64(w[2]), uint64(w[3])
	for x := 0; x+8 <= n; x += 8 {
		v0, v1 := binary.LittleEndian.Uint64(l0[x:x+8]), binary.LittleEndian.Uint64(l1[x:x+8])
		v2, v3 := binary.LittleEndian.Uint64(l2[x:x+8]), binary.LittleEndian.Uint64(l3[x:x+8])
		a := begin2 + (v0&lowBytes)*k0 + (v1&lowBytes)*k1 + (v2&lowBytes)*k2 + (v3&lowBytes)*k3
		b := begin2 + (v0>>8&lowBytes)*k0 + (v1>>8&lowBytes)*k1 + (v2>>8&lowBytes)*k2 + (v3>>8&lowBytes)*k3
		c := begin2 + (v0>>16&lowBytes)*k0 + (v1>>16&lowBytes)*k1 + (v2>>16&lowBytes)*k2 + (v3>>16&lowBytes)*k3
		d := begin2 + (v0>>24&lowBytes)*k0 + (v1>>24&lowBytes)*k1 + (v2>>24&lowBytes)*k2 + (v3>>24&lowBytes)*k3
		store(dst[x:], clip2(a)|clip2(b)<<8|clip2(c)<<16|clip2(d)<<24)
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

// clip2 is clip on both halves, whose sums are raised.
func clip2(sums uint64) uint64 {
	v := sums >> weightBits
	if v>>8&(3*lowBits) == lowBits { // both are 256 to 511
		return v & lowBytes
	}
	inside, above := v>>8&lowBits, v>>9&lowBits
	return v&(inside*255) | above*255
}
