package imaging

import (
	"encoding/binary"
	"fmt"
)

// Resizer scales images with an antialiased bilinear filter. Its results are
// Pillow's, bit for bit: Image.resize(size, BILINEAR) on an RGB image, and
// torchvision's Resize and CenterCrop, which call it.
//
// The zero value is ready. It keeps filters and buffers from call to call and
// is not safe for concurrent use.
type Resizer struct {
	filters filters
	line    []byte   // one source row, when it must be converted
	ring    []byte   // the last rows that were scaled horizontally
	lines   [][]byte // those rows of the ring that the next output row needs
}

// Resize scales src into dst, HWC RGB bytes, exactly [Geometry.Bytes] of
// them. dst must not overlap src. It computes only what a crop keeps. It
// fails with [ErrArgument].
func (r *Resizer) Resize(dst []byte, src *Image, g Geometry) error {
	if err := src.check(); err != nil {
		return err
	}
	if err := checkTarget(dst, g); err != nil {
		return err
	}
	r.resize(dst, (*packedRows)(src), src.Width, src.Height, g)
	return nil
}

func checkTarget(dst []byte, g Geometry) error {
	if err := g.check(); err != nil {
		return err
	}
	if len(dst) != g.Bytes() {
		return fmt.Errorf("%w: a destination of %d bytes for %v, want %d", ErrArgument, len(dst), g, g.Bytes())
	}
	return nil
}

// resize scales a valid source into a valid destination. As in Pillow the
// horizontal pass rounds to bytes, then the vertical pass works on those. The
// passes alternate row by row, so that only the rows under one vertical
// filter are held, and they stay in the cache.
func (r *Resizer) resize(dst []byte, src rows, width, height int, g Geometry) {
	ax, ay := g.axes(width, height)
	x := r.filters.get(ax)
	y := r.filters.get(ay)

	rowBytes := 3 * ax.n
	stride := (rowBytes + 7) &^ 7 // the vertical pass works on 8 bytes at a time
	r.line = resized(r.line, 3*(x.hi-x.lo))
	r.ring = resized(r.ring, stride*y.taps)
	r.lines = resized(r.lines, y.taps)

	next := 0
	for i, start := range y.start {
		for next = max(next, int(start)); next < int(start)+y.taps; next++ {
			slot := next % y.taps
			line := src.row(next, x.lo, x.hi, r.line)
			horizontal(r.ring[slot*stride:][:rowBytes], line, x)
		}
		for t := range r.lines {
			slot := (int(start) + t) % y.taps
			r.lines[t] = r.ring[slot*stride:][:stride]
		}
		vertical(dst[i*rowBytes:][:rowBytes], r.lines, y.weight[i*y.taps:][:y.taps])
	}
}

// horizontal scales one row. src begins at source pixel f.lo.
func horizontal(dst, src []byte, f *filter) {
	if f.identity() {
		copy(dst, src[3*(f.first-f.lo):])
		return
	}
	if f.taps == 4 {
		horizontal4(dst, src, f)
		return
	}
	weight := f.weight
	for i, start := range f.start {
		w := weight[:f.taps]
		weight = weight[f.taps:]
		p := src[3*(int(start)-f.lo):]
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

// horizontal4 is horizontal for four taps: scales of 1.5 to 2, which make
// inputs of networks out of most photos in data sets. Rounding errors of so
// few weights cannot carry a sum past 255.
func horizontal4(dst, src []byte, f *filter) {
	for i, start := range f.start {
		k := (*[4]uint32)(f.weight[4*i:])
		q := (*[12]byte)(src[3*(int(start)-f.lo):])
		out := (*[3]byte)(dst[3*i:])
		out[0] = byte((half + uint32(q[0])*k[0] + uint32(q[3])*k[1] + uint32(q[6])*k[2] + uint32(q[9])*k[3]) >> weightBits)
		out[1] = byte((half + uint32(q[1])*k[0] + uint32(q[4])*k[1] + uint32(q[7])*k[2] + uint32(q[10])*k[3]) >> weightBits)
		out[2] = byte((half + uint32(q[2])*k[0] + uint32(q[5])*k[1] + uint32(q[8])*k[2] + uint32(q[11])*k[3]) >> weightBits)
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

// vertical writes the weighted sum of lines, whose length is that of dst
// rounded up to 8.
func vertical(dst []byte, lines [][]byte, weight []uint32) {
	if len(lines) == 4 {
		vertical4(dst, lines, weight)
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

// vertical4 is vertical for four taps; see horizontal4.
func vertical4(dst []byte, lines [][]byte, weight []uint32) {
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
