package imaging

import "fmt"

// maxSide is the longest side of an image, before and after resizing. JPEG
// has the same limit. It bounds the filter tables.
const maxSide = 65535

// Transform says how pictures become samples of one size: which part is
// taken, how it is scaled, whether it is mirrored and how its colours change.
// [CenterCrop], [Stretch], [RandomResizedCrop] and [ParseTransform] make one;
// the zero value is invalid. A Transform is immutable, may be compared with
// ==, and is safe for concurrent use.
type Transform struct {
	crop          crop
	width, height int
	shorter       int // of cropCenter: what the shorter side is scaled to
	scale, ratio  bounds
	flip          float64
	filter        Filter
	jitter        Jitter
}

type crop uint8

const (
	cropNone crop = iota
	cropCenter
	cropRandom
)

// bounds is a closed interval.
type bounds struct{ lo, hi float64 }

// CenterCrop is torchvision's Resize(size) followed by CenterCrop(size): the
// picture is scaled, keeping its proportions, until its shorter side has size
// pixels, and the square in the middle is kept.
func CenterCrop(size int) Transform {
	return Transform{crop: cropCenter, width: size, height: size, shorter: size}
}

// Stretch scales the picture to width x height and changes its proportions.
func Stretch(width, height int) Transform { return Transform{width: width, height: height} }

// RandomResizedCrop is torchvision's: a box of random area and proportions,
// at a random place, is scaled to size x size. See [Transform.WithScale] and
// [Transform.WithRatio] for their ranges.
func RandomResizedCrop(size int) Transform {
	return Transform{crop: cropRandom, width: size, height: size, scale: defaultScale, ratio: defaultRatio}
}

var (
	defaultScale = bounds{0.08, 1}
	defaultRatio = bounds{3. / 4, 4. / 3}
)

// WithShorter sets what [CenterCrop] scales the shorter side to, before it
// keeps the middle: CenterCrop(224).WithShorter(256) is torchvision's
// Resize(256), CenterCrop(224). Range: the crop's size to 65535.
func (t Transform) WithShorter(side int) Transform {
	t.shorter = side
	return t
}

// WithScale sets the area of [RandomResizedCrop]'s box, uniform between two
// parts of the picture's. Range 0 < lo <= hi <= 1, default 0.08 to 1.
func (t Transform) WithScale(lo, hi float64) Transform {
	t.scale = bounds{lo, hi}
	return t
}

// WithRatio sets the width divided by the height of [RandomResizedCrop]'s
// box, whose logarithm is uniform. Range 0.001 to 1000, default 3/4 to 4/3.
func (t Transform) WithRatio(lo, hi float64) Transform {
	t.ratio = bounds{lo, hi}
	return t
}

// WithFlip mirrors pictures, left and right, with probability p. Default 0.
func (t Transform) WithFlip(p float64) Transform {
	t.flip = p
	return t
}

// WithFilter sets the filter. Default Bilinear. A picture and its mask are
// cropped and mirrored alike by two transforms that differ in the filter and in
// the jitter of colours only, given pictures of one size and the same key.
func (t Transform) WithFilter(f Filter) Transform {
	t.filter = f
	return t
}

// WithJitter carries a change of colours to whoever makes floats of the
// samples; it does not change what this package computes.
func (t Transform) WithJitter(j Jitter) Transform {
	t.jitter = j
	return t
}

// Size returns width and height of the samples.
func (t Transform) Size() (width, height int) { return t.width, t.height }

// Bytes returns the bytes of a sample of RGB bytes: width x height x 3. See
// [Decoder.Bytes] for others.
func (t Transform) Bytes() int { return t.width * t.height * 3 }

// Jitter returns what WithJitter set.
func (t Transform) Jitter() Jitter { return t.jitter }

// Filter returns what WithFilter set.
func (t Transform) Filter() Filter { return t.filter }

// Random reports whether a sample depends on the key of the visit.
func (t Transform) Random() bool {
	return t.RandomCrop() || t.flip > 0 && t.flip < 1 || t.jitter != Jitter{}
}

// RandomCrop reports whether the part of a picture that is taken depends on the
// key of the visit.
func (t Transform) RandomCrop() bool { return t.crop == cropRandom }

// Check fails with [ErrArgument] if a part of t is out of its range.
func (t Transform) Check() error {
	switch {
	case t.width < 1 || t.height < 1 || t.width > maxSide || t.height > maxSide:
		return fmt.Errorf("%w: %v: want sides of 1 to %d", ErrArgument, t, maxSide)
	case t.crop == cropCenter && (t.shorter < t.width || t.shorter > maxSide):
		return fmt.Errorf("%w: %v: want a shorter side of %d, the crop's, to %d", ErrArgument, t, t.width, maxSide)
	case t.crop != cropCenter && t.shorter != 0:
		return fmt.Errorf("%w: %v: only a center crop has a shorter side", ErrArgument, t)
	case t.crop == cropRandom && !t.scale.within(1e-6, 1):
		return fmt.Errorf("%w: %v: want areas above 0 and up to 1", ErrArgument, t)
	case t.crop == cropRandom && !t.ratio.within(0.001, 1000):
		return fmt.Errorf("%w: %v: want ratios of 0.001 to 1000", ErrArgument, t)
	case t.crop != cropRandom && (t.scale != bounds{} || t.ratio != bounds{}):
		return fmt.Errorf("%w: %v: only a random resized crop has areas and ratios", ErrArgument, t)
	case !(t.flip >= 0 && t.flip <= 1):
		return fmt.Errorf("%w: %v: want a probability of 0 to 1", ErrArgument, t)
	case t.filter > Nearest:
		return fmt.Errorf("%w: %v", ErrArgument, t.filter)
	}
	return t.jitter.Check()
}

// within is false for what is not a number, too.
func (b bounds) within(lo, hi float64) bool { return b.lo >= lo && b.lo <= b.hi && b.hi <= hi }
