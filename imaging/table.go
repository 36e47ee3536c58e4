package imaging

import "slices"

// Weights are fixed-point numbers with this many fraction bits: a weighted sum
// of bytes then fits 31 bits and a sign. The weights of a bicubic filter add
// up to 1.3 at most without their signs, and 130,000 rounding errors to 0.02.
const (
	weightBits = 32 - 8 - 2
	half       = 1 << (weightBits - 1) // rounds a sum to nearest
)

// table holds the weights of one axis: output i is the sum of taps source
// samples from start[i] on, weighted by weight[i*stride:][:taps].
//
// The weights are those of Pillow: the filter around the output's centre, as
// wide as for one pixel of the smaller of the two grids, normalised and then
// rounded. Where the samples are chroma that was stored coarser, they are
// those of interpolating it between the centres of its samples to all pixels
// (libjpeg's "fancy upsampling") and of that filter after it, in one. Every
// output has the same number of taps, filled up with zero weights, so that the
// loops over them are regular.
type table struct {
	axis
	taps   int
	stride int // taps rounded up to four; the weights between are zero
	start  []int32
	weight []int32
	// The source samples lo <= i < hi are needed. From the starts of the
	// outputs from <= i < to on, stride+2 of them are there, so that vector code
	// may load more than it uses.
	lo, hi, from, to int
	// halves is the weights as vector code takes them, once it has asked.
	halves []int16
	// unrounded is the weights before they are rounded, once exact has asked.
	unrounded []float64

	// Scratch: what lies under each output, and weights of one.
	spans         []span
	pixels, mixed []float64
}

// compute makes t the table of axis a, reusing its memory.
func (t *table) compute(a axis) {
	t.axis = a
	g := a.grid()
	t.spans = resized(t.spans, a.N)
	if a.filter == Nearest {
		t.nearest(g)
	} else {
		for k := range t.spans {
			t.spans[k] = g.span(t.output(k))
		}
	}
	t.taps = 1
	for _, s := range t.spans {
		lo, hi := a.window(t.run(g, s))
		t.taps = max(t.taps, hi-lo)
	}
	t.stride = (t.taps + 3) &^ 3
	t.start = resized(t.start, a.N)
	t.weight = resized(t.weight, a.N*t.stride)
	t.halves, t.unrounded = t.halves[:0], t.unrounded[:0]
	clear(t.weight)

	last := a.samples() - t.taps
	for k, s := range t.spans {
		w := t.normalised(g, s)
		if a.reversed {
			slices.Reverse(w)
		}
		first, _ := t.run(g, s)
		if a.shift > 0 {
			w, first = t.interpolated(first)
		}
		start := min(first, last)
		out := t.weight[k*t.stride+first-start:][:len(w)]
		for j, v := range w {
			out[j] = fixed(v)
		}
		t.start[k] = int32(start)
	}
	t.bound()
}

// bound sets what of the source, and from which outputs on, may be touched.
func (t *table) bound() {
	first, last := int(t.start[0]), int(t.start[t.N-1])
	t.lo = min(first, last)
	t.hi = min(max(first, last)+t.stride+2, t.samples())
	t.from, t.to = 0, t.N
	ahead := func(k int) bool { return int(t.start[k])+t.stride+2 <= t.hi }
	for t.from < t.to && !ahead(t.from) {
		t.from++
	}
	for t.from < t.to && !ahead(t.to-1) {
		t.to--
	}
}

// nearest sets the spans to the pixels under the centres of the outputs. A centre
// is a step behind the one before it, added up in float64 from the first pixel of
// the scaled box on, as by Pillow (ImagingScaleAffine in Geometry.c): where two
// pixels meet, roundings decide.
func (t *table) nearest(g grid) {
	center := float64(g.scale * 0.5)
	for i := range t.First + t.N {
		if i >= t.First {
			pixel := min(int(center), g.n-1)
			t.spans[t.output(i-t.First)-t.First] = span{lo: pixel, hi: pixel + 1, center: center}
		}
		center += g.scale
	}
}

// output is which pixel of the scaled box output k is.
func (t *table) output(k int) int {
	if t.mirror {
		k = t.N - 1 - k
	}
	return t.First + k
}

// run returns the stored pixels of a span.
func (t *table) run(g grid, s span) (first, end int) {
	lo, hi := s.lo+g.base, s.hi+g.base
	if t.reversed {
		pixels := t.axis.pixels()
		return pixels - hi, pixels - lo
	}
	return lo, hi
}

// normalised returns the weights of the pixels of a span, which add up to 1.
func (t *table) normalised(g grid, s span) []float64 {
	t.pixels = resized(t.pixels, s.hi-s.lo)
	w, sum := t.pixels, 0.0
	for j := range w {
		w[j] = t.filter.at(float64((float64(s.lo+j) - s.center + 0.5) * g.inverse))
		sum += w[j]
	}
	if sum != 0 {
		for j := range w {
			w[j] /= sum
		}
	}
	return w
}

// interpolated turns t.pixels, weights of the pixels from lo on, into weights
// of the samples, from first on, that those are interpolated from.
func (t *table) interpolated(lo int) (w []float64, first int) {
	first, end := t.window(lo, lo+len(t.pixels))
	t.mixed = resized(t.mixed, end-first)
	clear(t.mixed)
	for j, w := range t.pixels {
		below, above, part := t.between(lo + j)
		t.mixed[below-first] += float64(w * (1 - part))
		t.mixed[above-first] += float64(w * part)
	}
	return t.mixed, first
}

// fixed rounds a weight to nearest.
func fixed(w float64) int32 {
	w = float64(w * (1 << weightBits))
	if w < 0 {
		return int32(w - 0.5)
	}
	return int32(w + 0.5)
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// tables is a cache of the tables of recent axes, the last used first: a
// folder of photos has few distinct sizes, and a table costs as much as
// resizing some rows. When it is full the one that was not used for longest
// goes, and its memory is used again. So the last few that get returned, a
// picture's, stay valid together.
type tables struct {
	recent []*table
}

const maxTables = 64

func (c *tables) get(a axis) *table {
	at := 0
	for at < len(c.recent) && c.recent[at].axis != a {
		at++
	}
	switch {
	case at < len(c.recent):
	case at < maxTables:
		c.recent = append(c.recent, new(table))
		c.recent[at].compute(a)
	default:
		at--
		c.recent[at].compute(a)
	}
	t := c.recent[at]
	copy(c.recent[1:at+1], c.recent[:at])
	c.recent[0] = t
	return t
}
