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
// samples from start[i] on, weighted by weight[i*taps:][:taps]. Weights are
// never negative, so a sum never falls below zero.
//
// The weights are those of Pillow's antialiased bilinear filter: a triangle
// around the output's centre, as wide as one sample of the smaller of the two
// grids, normalised and then rounded. Every output has the same number of
// taps, filled up with zero weights, so that the loops over them are regular.
type filter struct {
	axis
	taps   int
	start  []int32
	weight []uint32
	lo, hi int // source samples used: lo <= i < hi

	scratch []float64
}

// identity reports whether the outputs are the source samples themselves.
func (f *filter) identity() bool { return f.in == f.out }

// compute makes f the filter of axis a, reusing its memory.
func (f *filter) compute(a axis) {
	f.axis = a
	// Products get an explicit conversion so that no compiler joins them with
	// an addition (FMA): the last bit must be that of every other machine.
	scale := float64(a.in) / float64(a.out)
	support := max(scale, 1)

	f.taps = 1
	for i := range a.n {
		lo, hi := span(a, i, scale, support)
		f.taps = max(f.taps, hi-lo)
	}
	f.start = resized(f.start, a.n)
	f.weight = resized(f.weight, a.n*f.taps)
	f.scratch = resized(f.scratch, f.taps)
	clear(f.weight)

	inverse := 1 / support
	for i := range a.n {
		center := float64((float64(a.first+i) + 0.5) * scale)
		lo, hi := span(a, i, scale, support)
		w := f.scratch[:hi-lo]
		sum := 0.0
		for j := range w {
			w[j] = triangle(float64((float64(lo+j) - center + 0.5) * inverse))
			sum += w[j]
		}
		start := min(lo, a.in-f.taps)
		out := f.weight[i*f.taps+lo-start:]
		for j := range w {
			if sum != 0 {
				w[j] /= sum
			}
			out[j] = uint32(0.5 + float64(w[j]*(1<<weightBits)))
		}
		f.start[i] = int32(start)
	}
	f.lo = int(f.start[0])
	f.hi = int(f.start[a.n-1]) + f.taps
}

// span returns the source samples under the triangle of output i.
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

// filters is a cache of the filters of recent axes: a folder of photos has
// few distinct sizes, and a filter costs about as much as resizing ten rows.
// When it is full the oldest goes, and its memory is used again.
type filters struct {
	recent []*filter
	oldest int
}

const maxFilters = 64

func (c *filters) get(a axis) *filter {
	for _, f := range c.recent {
		if f.axis == a {
			return f
		}
	}
	if len(c.recent) < maxFilters {
		f := new(filter)
		f.compute(a)
		c.recent = append(c.recent, f)
		return f
	}
	f := c.recent[c.oldest]
	c.oldest = (c.oldest + 1) % maxFilters
	f.compute(a)
	return f
}
