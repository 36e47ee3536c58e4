package samplephotos

import "math/rand/v2"

// fraction is the number of fraction bits of a relief's heights.
const fraction = 4

// relief is fractal noise. It begins as a few random points; each octave
// doubles the grid, puts the mean of the neighbours between them, and adds
// noise that is weaker than that of the octave before.
type relief struct {
	a, b          []int32
	width, height int
}

// grow makes a relief of at least width x height points around zero. coarse
// is the amplitude of the first octave, fine that of the last.
func (r *relief) grow(rng *rand.Rand, width, height, coarse, fine int) {
	octaves := 0
	w, h := width, height
	for w > 5 && h > 5 {
		w, h = (w+1)/2+1, (h+1)/2+1
		octaves++
	}
	r.width, r.height = w, h
	r.a = resized(r.a, w*h)
	clear(r.a)
	r.add(rng, coarse)
	for o := 1; o <= octaves; o++ {
		r.double()
		r.add(rng, fine+(coarse-fine)*(octaves-o)*(octaves-o)/(octaves*octaves))
	}
}

func (r *relief) row(y int) []int32 { return r.a[y*r.width:][:r.width] }

// double turns w x h points into (2w-1) x (2h-1).
func (r *relief) double() {
	w, h := 2*r.width-1, 2*r.height-1
	r.b = resized(r.b, w*h)
	for y := range r.height {
		in, out := r.row(y), r.b[2*y*w:][:w]
		for x := range in[1:] {
			out[2*x] = in[x]
			out[2*x+1] = (in[x] + in[x+1]) / 2
		}
		out[w-1] = in[r.width-1]
	}
	for y := 1; y < h; y += 2 {
		above, out, below := r.b[(y-1)*w:][:w], r.b[y*w:][:w], r.b[(y+1)*w:][:w]
		for x := range out {
			out[x] = (above[x] + below[x]) / 2
		}
	}
	r.a, r.b, r.width, r.height = r.b, r.a, w, h
}

func (r *relief) add(rng *rand.Rand, amplitude int) {
	for y := range r.height {
		row := r.row(y)
		var bits uint64
		for x := range row {
			if x%8 == 0 {
				bits = rng.Uint64()
			}
			row[x] += (int32(bits&255) - 128) * int32(amplitude) << fraction >> 7
			bits >>= 8
		}
	}
}

func resized(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n)
	}
	return s[:n]
}
