package imaging

import (
	"encoding/binary"
	"slices"
)

// The passes for samples of 16 bits. They are those that Pillow has since
// version 11.0 for its mode I;16 (ImagingResampleHorizontal_16bpc and
// Vertical_16bpc in Resample.c), which is grey; of RGB every channel is made so.
// Weights are not rounded, a sum is of float64 in the order of the upright
// picture's samples, and each pass rounds it to nearest, halves up. What bicubic
// makes of more than 65535 is 65535; in Pillow its low byte wraps round.

// exact returns the weights before they are rounded, in the order of the
// upright picture's samples: those of output i are exact()[i*t.stride:][:t.taps].
func (t *table) exact() []float64 {
	if len(t.unrounded) != 0 {
		return t.unrounded
	}
	t.unrounded = resized(t.unrounded, len(t.weight))
	clear(t.unrounded)
	g := t.grid()
	for k, s := range t.spans {
		out := t.unrounded[k*t.stride:][:t.taps]
		first, end := t.run(g, s)
		at := first - int(t.start[k])
		if t.reversed {
			at = int(t.start[k]) + t.taps - end
		}
		copy(out[at:], t.normalised(g, s))
	}
	return t.unrounded
}

// horizontalDeep scales a row of samples to all outputs. src begins at source
// pixel t.lo; row has room for its samples.
func horizontalDeep(dst, src []byte, t *table, channels int, row []float64) {
	pixels := t.hi - t.lo
	row = row[:channels*pixels]
	for i := range row {
		row[i] = float64(binary.LittleEndian.Uint16(src[2*i:]))
	}
	if t.reversed {
		slices.Reverse(row)
		for p := row; len(p) >= 3 && channels == 3; p = p[3:] { // RGB again
			p[0], p[2] = p[2], p[0]
		}
	}
	weights := t.exact()
	for i := range t.N {
		w := weights[i*t.stride:][:t.taps]
		at := int(t.start[i]) - t.lo
		if t.reversed {
			at = pixels - t.taps - at
		}
		p := row[channels*at:][:channels*t.taps]
		if channels == 1 {
			sum := 0.0
			for j, k := range w {
				sum += float64(p[j] * k)
			}
			binary.LittleEndian.PutUint16(dst[2*i:], round16(sum))
			continue
		}
		r, g, b := 0.0, 0.0, 0.0
		for _, k := range w {
			q := (*[3]float64)(p)
			r += float64(q[0] * k)
			g += float64(q[1] * k)
			b += float64(q[2] * k)
			p = p[3:]
		}
		out := dst[6*i:][:6]
		binary.LittleEndian.PutUint16(out, round16(r))
		binary.LittleEndian.PutUint16(out[2:], round16(g))
		binary.LittleEndian.PutUint16(out[4:], round16(b))
	}
}

// verticalDeep writes output k of the table: the weighted sum of lines, of
// which there is one a tap. It may change their order. sums has room for the
// samples of dst.
func verticalDeep(dst []byte, lines [][]byte, t *table, k int, sums []float64) {
	if t.reversed {
		slices.Reverse(lines)
	}
	sums = sums[:len(dst)/2]
	clear(sums)
	for j, w := range t.exact()[k*t.stride:][:t.taps] {
		if w == 0 {
			continue // where there is no sample
		}
		line := lines[j][:len(dst)]
		for x := range sums {
			sums[x] += float64(float64(binary.LittleEndian.Uint16(line[2*x:])) * w)
		}
	}
	for x, sum := range sums {
		binary.LittleEndian.PutUint16(dst[2*x:], round16(sum))
	}
}

// round16 rounds to a sample.
func round16(sum float64) uint16 {
	if sum <= 0 {
		return 0
	}
	return uint16(min(int(sum+0.5), 65535))
}
