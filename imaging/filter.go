package imaging

import "math"

// Weights are fixed-point numbers with this many fraction bits: a weighted
// sum of bytes then fits 31 bits with room for the rounding errors of 130,000
// weights.
const (
	weightBits = 32 - 8 - 2
	half       = 1 << (weightBits - 1) // rounds a sum to nearest
)

// filter holds the weights of one axis: output i is the sum of taps source
// samples from start[i] on, weighted by weight[i*stride:][:taps]. Weights are
// never negative, so a sum never falls below zero.
//
// The weights are those of Pillow's antialiased bilinear filter: a triangle
// around the output's centre, as wide as one pixel of the smaller of the two
// grids, normalised and then rounded. Where the samples are chroma that was
// stored coarser, they are those of interpolating it between the centres of
// its samples to all pixels (libjpeg's "fancy upsampling") and of that filter
// after it, in one. Every output has the same number of taps, filled up with
// zero weights, so that the loops over them are regular.
type filter struct {
	axis
	taps   int
	stride int // taps rounded up to four; the weights between are zero
	start  []int32
	weight []uint32
	lo, hi int // source samples used: lo <= i < hi
	// ahead is the number of first outputs from whose start on stride+2
	// samples exist, so that vector code may load more than it uses.
	ahead int

	pixels, mixed []float64 // scratch: weights of one output
}

// identity reports whether the outputs are the source samples themselves.
func (f *filter) identity() bool { return f.in == f.out && f.shift == 0 }

// compute makes f the filter of axis a, reusing its memory.
func (f *filter) compute(a axis) {
	f.axis = a
	// Products get an explicit conversion so that no compiler joins them with
	// an addition (FMA): the last bit must be that of every other machine.
	scale := float64(a.in) / float64(a.out)
	support := max(scale, 1)
	inverse := 1 / support

	f.taps = 1
	for i := range a.n {
		lo, hi := a.window(span(a, i, scale, support))
		f.taps = max(f.taps, hi-lo)
	}
	f.stride = (f.taps + 3) &^ 3
	f.start = resized(f.start, a.n)
	f.weight = resized(f.weight, a.n*f.stride)
	clear(f.weight)

	for i := range a.n {
		center := float64((float64(a.first+i) + 0.5) * scale)
		first, hi := span(a, i, scale, support)
		f.pixels = resized(f.pixels, hi-first)
		w := f.pixels
		sum := 0.0
		for j := range w {
			w[j] = triangle(float64((float64(first+j) - center + 0.5) * inverse))
			sum += w[j]
		}
		if sum != 0 {
			for j := range w {
				w[j] /= sum
			}
		}
		if a.shift > 0 {
			w, first = f.interpolated(first)
		}

		start := min(first, a.samples()-f.taps)
		out := f.weight[i*f.stride+first-start:][:len(w)]
		for j := range w {
			out[j] = uint32(0.5 + float64(w[j]*(1<<weightBits)))
		}
		f.start[i] = int32(start)
	}
	f.lo = int(f.start[0])
	f.hi = int(f.start[a.n-1]) + f.taps
	f.ahead = a.n
	for f.ahead > 0 && int(f.start[f.ahead-1])+f.stride+2 > f.hi {
		f.ahead--
	}
}

// interpolated turns f.pixels, weights of the pixels from lo on, into weights
// of the samples, from first on, that those are interpolated from.
func (f *filter) interpolated(lo int) (w []float64, first int) {
	first, end := f.window(lo, lo+len(f.pixels))
	f.mixed = resized(f.mixed, end-first)
	clear(f.mixed)
	for j, w := range f.pixels {
		below, above, part := f.between(lo + j)
		f.mixed[below-first] += float64(w * (1 - part))
		f.mixed[above-first] += float64(w * part)
	}
	return f.mixed, first
}

// span returns the source pixels under the triangle of output i.
func span(a axis, i int, scale, support float64) (lo, hi int) {
	center := float64((float64(a.first+i) + 0.5) * scale)
	lo = max(int(center-support+0.5), 0)
	hi = min(int(center+support+0.5), a.in)
	return lo, hi
}

func triangle(x float64) float64 {
	return max(0, 1-math.Abs(x))
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// filters is a cache of the filters of recent axes, the last used first: a
// folder of photos has few distinct sizes, and a filter costs as much as
// resizing some rows. When it is full the one that was not used for longest
// goes, and its memory is used again. So the last few that get returned, a
// picture's, stay valid together.
type filters struct {
	recent []*filter
}

const maxFilters = 64

func (c *filters) get(a axis) *filter {
	at := 0
	for at < len(c.recent) && c.recent[at].axis != a {
		at++
	}
	switch {
	case at < len(c.recent):
	case at < maxFilters:
		c.recent = append(c.recent, new(filter))
		c.recent[at].compute(a)
	default:
		at--
		c.recent[at].compute(a)
	}
	f := c.recent[at]
	copy(c.recent[1:at+1], c.recent[:at])
	c.recent[0] = f
	return f
}
