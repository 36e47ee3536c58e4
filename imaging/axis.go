package imaging

// axis is one direction of a resize: in pixels become out, of which those
// from first to first+n are wanted.
type axis struct {
	in, out, first, n int
	// shift is above 0 for chroma that a file stores coarser: a sample is for
	// 1<<shift pixels and lies in their middle, as JPEG and WebP have it.
	shift int
}

// samples returns how many samples hold the in pixels; the last one may be
// for fewer pixels than the others.
func (a axis) samples() int { return (a.in + 1<<a.shift - 1) >> a.shift }

// between returns the samples on both sides of a pixel's centre, and which
// part of the way from one to the other it lies. At an edge, and where pixels
// are samples, they are the same.
func (a axis) between(pixel int) (below, above int, part float64) {
	// In halves of a pixel, from the middle of sample 0 on.
	pitch := 2 << a.shift
	at := 2*pixel + 1 - 1<<a.shift
	below = max(at>>(a.shift+1), 0)
	above = min((at+pitch-1)>>(a.shift+1), a.samples()-1)
	return below, above, float64(at&(pitch-1)) / float64(pitch)
}

// window returns the samples that the pixels lo <= i < hi are made of.
func (a axis) window(lo, hi int) (first, end int) {
	if a.shift == 0 {
		return lo, hi
	}
	first, _, _ = a.between(lo)
	_, last, _ := a.between(hi - 1)
	return first, last + 1
}
