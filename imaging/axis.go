package imaging

// axis is one direction of a resize, as the pixels lie in memory: those of the
// whole picture, in the order in which it is stored.
type axis struct {
	Axis
	filter Filter
	size   int // pixels of the whole picture, at full size
	// shift is above 0 for chroma that a file stores coarser: a sample is for
	// 1<<shift pixels and lies in their middle, as JPEG and WebP have it.
	shift int
	// shrink is above 0 for a picture that was decoded smaller: a sample is
	// the mean of 1<<shrink pixels. Then shift is 0.
	shrink int
	// reversed: the upright picture's first pixel is stored last. Weights are
	// computed for the upright picture, so that they are those of a copy that
	// was turned first, and then turned themselves.
	reversed bool
	mirror   bool // the first output is the last one of the plan
}

// pixels returns how many pixels were decoded along the whole picture.
func (a axis) pixels() int { return shrunk(a.size, a.shrink) }

// shrunk is the size that size pixels are decoded to: a part of one is one.
func shrunk(size, shrink int) int { return (size + 1<<shrink - 1) >> shrink }

// samples returns how many samples hold those pixels; the last one may be for
// fewer than the others.
func (a axis) samples() int { return shrunk(a.pixels(), a.shift) }

// identity reports whether the outputs are samples themselves, in their order.
func (a axis) identity() bool {
	return a.Full == a.Length && a.shift == 0 && a.shrink == 0 && !a.reversed && !a.mirror
}

// descending reports whether later outputs lie at earlier samples.
func (a axis) descending() bool { return a.reversed != a.mirror }

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

// grid is where the filter lies over the pixels of an axis, in the upright
// picture's order. Lengths are in pixels, as they were decoded.
type grid struct {
	base, n int     // the box lies on n pixels from base on
	origin  float64 // where in the first of them it begins
	scale   float64 // pixels per output
	support float64 // half of the filter's width
	inverse float64 // of how much the filter is widened
}

func (a axis) grid() grid {
	unit := 1 << a.shrink
	offset := a.Offset
	if a.reversed { // counted from the end of the last pixel
		offset += a.pixels()<<a.shrink - a.size
	}
	base := offset >> a.shrink
	scale := float64(a.Length) / float64(unit) / float64(a.Full)
	widened := max(scale, 1)
	return grid{
		base:    base,
		n:       (offset+a.Length+unit-1)>>a.shrink - base,
		origin:  float64(offset&(unit-1)) / float64(unit),
		scale:   scale,
		support: widened * a.filter.support(),
		inverse: 1 / widened,
	}
}

// span is the pixels lo <= i < hi, counted from g.base on, under the filter of
// one output, and where its centre lies.
type span struct {
	lo, hi int
	center float64
}

func (g grid) span(output int) span {
	// Products get an explicit conversion so that no compiler joins them with
	// an addition (FMA): the last bit must be that of every other machine.
	center := g.origin + float64((float64(output)+0.5)*g.scale)
	return span{
		lo:     max(int(center-g.support+0.5), 0),
		hi:     min(int(center+g.support+0.5), g.n),
		center: center,
	}
}
