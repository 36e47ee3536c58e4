package imaging

import (
	"fmt"
	"math"
)

// Filter is a resampling filter. But for Nearest it is antialiased: where a
// picture shrinks, the filter is as much wider as the picture becomes smaller.
type Filter uint8

const (
	Bilinear Filter = iota // a triangle
	Bicubic                // Keys' cubic with a = -0.5, which sharpens a little
	// Nearest takes the one pixel under the centre of an output, so that no
	// value comes out that was not there: for masks. It is Pillow's NEAREST,
	// which is torchvision's InterpolationMode.NEAREST for pictures of Pillow;
	// for tensors that is NEAREST_EXACT.
	Nearest
)

// String returns "bilinear", "bicubic" or "nearest".
func (f Filter) String() string {
	switch f {
	case Bilinear:
		return "bilinear"
	case Bicubic:
		return "bicubic"
	case Nearest:
		return "nearest"
	}
	return fmt.Sprintf("filter %d", uint8(f))
}

// support returns half of the filter's width, in pixels of the coarser grid.
func (f Filter) support() float64 {
	if f == Bicubic {
		return 2
	}
	return 1
}

// at returns the filter's height at distance x from its centre. Its operations
// are in Pillow's order, and no two of them may be joined (FMA).
func (f Filter) at(x float64) float64 {
	x = math.Abs(x)
	switch f {
	case Bilinear:
		return max(0, 1-x)
	case Nearest:
		return 1 // there is one pixel
	}
	const a = -0.5
	switch {
	case x < 1:
		v := float64((a+2)*x) - (a + 3)
		return float64(float64(v*x)*x) + 1
	case x < 2:
		v := float64((x-5)*x) + 8
		return float64((float64(v*x) - 4) * a)
	}
	return 0
}
