package imaging

import (
	"fmt"
	"math"
)

// maxSide is the longest side of an image, before and after resizing. JPEG
// has the same limit. It bounds the filter tables.
const maxSide = 65535

// Geometry says what becomes of an image's size. [CenterCrop] and [Stretch]
// make one; the zero value is invalid.
type Geometry struct {
	width, height int
	crop          bool
}

// CenterCrop is the geometry of torchvision's Resize(size) followed by
// CenterCrop(size): the image is scaled, keeping its proportions, until its
// shorter side has size pixels, and the square in the middle is kept.
func CenterCrop(size int) Geometry { return Geometry{size, size, true} }

// Stretch scales the image to width x height and changes its proportions.
func Stretch(width, height int) Geometry { return Geometry{width, height, false} }

// Size returns width and height of the result.
func (g Geometry) Size() (width, height int) { return g.width, g.height }

// Bytes returns the bytes of the result: width x height x 3.
func (g Geometry) Bytes() int { return g.width * g.height * 3 }

// String returns "center crop 224x224" or "stretch 224x224".
func (g Geometry) String() string {
	if g.crop {
		return fmt.Sprintf("center crop %dx%d", g.width, g.height)
	}
	return fmt.Sprintf("stretch %dx%d", g.width, g.height)
}

func (g Geometry) check() error {
	if g.width < 1 || g.height < 1 || g.width > maxSide || g.height > maxSide {
		return fmt.Errorf("%w: %v: want sides of 1 to %d", ErrArgument, g, maxSide)
	}
	return nil
}

// axes returns both directions for an image of width x height.
func (g Geometry) axes(width, height int) (x, y axis) {
	if !g.crop {
		return axis{in: width, out: g.width, n: g.width}, axis{in: height, out: g.height, n: g.height}
	}
	outW, outH := g.width, g.height
	if width < height {
		outH = longSide(g.width, height, width)
	} else {
		outW = longSide(g.height, width, height)
	}
	return axis{in: width, out: outW, first: cropOffset(outW, g.width), n: g.width},
		axis{in: height, out: outH, first: cropOffset(outH, g.height), n: g.height}
}

// longSide is int(size*long/short) as Python computes it.
func longSide(size, long, short int) int {
	return int(float64(int64(size)*int64(long)) / float64(short))
}

// cropOffset is int(round((full-crop)/2.0)); Python rounds halves to even.
func cropOffset(full, crop int) int {
	return int(math.RoundToEven(float64(full-crop) / 2))
}
