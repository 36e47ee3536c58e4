package imaging

import (
	"fmt"
	"math"
)

// Axis is what happens along one direction of a picture. The pixels Offset to
// Offset+Length are taken and scaled to Full pixels, of which First to First+N
// are kept. The scaling sees no pixel outside of its box, as if the box had
// been cut out before.
type Axis struct {
	Offset, Length int
	Full           int
	First, N       int
}

// Plan is what a [Transform] does to one picture in one visit. It is enough
// for a device to do the same.
type Plan struct {
	X, Y   Axis // of the upright picture
	Mirror bool // left and right change places, after all else
	Filter Filter
}

// Bytes returns the bytes of a result of RGB bytes: X.N x Y.N x 3.
func (p Plan) Bytes() int { return p.X.N * p.Y.N * 3 }

// Point returns where in the sample a point of the upright picture goes, in
// pixels from the edge of the first one on. It may lie outside.
func (p Plan) Point(x, y float64) (float64, float64) {
	x, y = p.X.point(x), p.Y.point(y)
	if p.Mirror {
		x = float64(p.X.N) - x
	}
	return x, y
}

func (a Axis) point(at float64) float64 {
	return (at-float64(a.Offset))*float64(a.Full)/float64(a.Length) - float64(a.First)
}

// Plan returns what t does to an upright picture of width x height. key is 64
// random bits that belong to one visit of one sample, such as a hash of seed,
// epoch and sample. Equal keys give equal plans on every machine. Crop, flip
// and jitter draw independently: adding one changes none of the others. The
// plan of an impossible picture, or of an invalid t, is not valid either.
func (t Transform) Plan(width, height int, key uint64) Plan {
	p := Plan{
		X:      Axis{Length: width, Full: t.width, N: t.width},
		Y:      Axis{Length: height, Full: t.height, N: t.height},
		Filter: t.filter,
		Mirror: newDraws(key, forFlip).uniform(0, 1) < t.flip,
	}
	if width < 1 || height < 1 {
		return p
	}
	switch t.crop {
	case cropCenter:
		p.X.Full, p.Y.Full = t.shorter, t.shorter
		if width < height {
			p.Y.Full = longSide(t.shorter, height, width)
		} else {
			p.X.Full = longSide(t.shorter, width, height)
		}
		p.X.First = cropOffset(p.X.Full, t.width)
		p.Y.First = cropOffset(p.Y.Full, t.height)
	case cropRandom:
		t.randomBox(&p, newDraws(key, forCrop))
	}
	return p
}

// longSide is int(size*long/short) as Python computes it.
func longSide(size, long, short int) int {
	return int(float64(int64(size)*int64(long)) / float64(short))
}

// cropOffset is int(round((full-crop)/2.0)); Python rounds halves to even.
func cropOffset(full, crop int) int {
	return int(math.RoundToEven(float64(full-crop) / 2))
}

// randomBox chooses the box that p takes out of the whole picture. Source:
// torchvision, RandomResizedCrop.get_params.
func (t Transform) randomBox(p *Plan, d *draws) {
	width, height := p.X.Length, p.Y.Length
	whole := float64(width) * float64(height)
	for range 10 {
		area := float64(whole * d.uniform(t.scale.lo, t.scale.hi))
		ratio := t.ratio.logUniform(d.next())
		w := int(math.RoundToEven(math.Sqrt(float64(area * ratio))))
		h := int(math.RoundToEven(math.Sqrt(area / ratio)))
		if 0 < w && w <= width && 0 < h && h <= height {
			p.Y.Offset, p.Y.Length = d.below(height-h+1), h
			p.X.Offset, p.X.Length = d.below(width-w+1), w
			return
		}
	}
	// The middle, as much of it as has an allowed ratio.
	switch ratio := float64(width) / float64(height); {
	case ratio < t.ratio.lo:
		height = max(1, int(math.RoundToEven(float64(width)/t.ratio.lo)))
	case ratio > t.ratio.hi:
		width = max(1, int(math.RoundToEven(float64(height)*t.ratio.hi)))
	}
	p.X.Offset, p.X.Length = (p.X.Length-width)/2, width
	p.Y.Offset, p.Y.Length = (p.Y.Length-height)/2, height
}

// logUniform maps 64 random bits to lo*(hi/lo)^u with 0 <= u < 1. A power
// whose exponent is a binary fraction is a product of square roots: IEEE 754
// rounds those alike everywhere, while math.Exp differs between processors in
// the last bit.
func (b bounds) logUniform(random uint64) float64 {
	v, root := b.lo, b.hi/b.lo
	for range 32 { // more would not change a box of 65535 pixels
		root = math.Sqrt(root)
		if random>>63 == 1 {
			v = float64(v * root)
		}
		random <<= 1
	}
	return v
}

// shrink returns the log2, up to 3, of how much smaller a picture may be
// decoded so that it still has margin times the pixels that p scales it to.
// Nearest wants the pixels of the file.
func (p Plan) shrink() int {
	const margin = 2
	if p.Filter == Nearest {
		return 0
	}
	s := 3
	for s > 0 && (p.X.Length < margin*p.X.Full<<s || p.Y.Length < margin*p.Y.Full<<s) {
		s--
	}
	return s
}

// check fails unless p fits a picture of width x height. That bounds the
// memory of a resize, too.
func (p Plan) check(width, height int) error {
	for _, a := range []struct {
		Axis
		name string
		size int
	}{{p.X, "width", width}, {p.Y, "height", height}} {
		if a.Offset < 0 || a.Length < 1 || a.Length > a.size-a.Offset {
			return fmt.Errorf("%w: a box of %d pixels from %d on, the %s is %d", ErrArgument, a.Length, a.Offset, a.name, a.size)
		}
		if a.First < 0 || a.N < 1 || a.N > maxSide || a.N > a.Full-a.First {
			return fmt.Errorf("%w: pixels %d to %d of a %s scaled to %d: want 1 to %d of them", ErrArgument, a.First, a.First+a.N, a.name, a.Full, maxSide)
		}
	}
	if p.Filter > Nearest {
		return fmt.Errorf("%w: %v", ErrArgument, p.Filter)
	}
	return nil
}
