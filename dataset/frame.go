package dataset

import (
	"fmt"

	"github.com/pinion-gpu/pinion/imaging"
)

// Frame is the size of a picture, upright, in pixels. It is zero until the first
// picture of a visit is read, by [Images] or by a reader of your own, which fills
// it in where it is zero. See [Visit].
type Frame struct{ Width, Height int }

// join takes the size of the first picture, and fails with [ErrMismatch] for
// another one that cannot go with it by t: one of another shape, which is mostly
// turned, even where t stretches it; or of another size where crops are random,
// because those would take another part.
func (f *Frame) join(width, height int, t imaging.Transform) error {
	if *f == (Frame{}) {
		*f = Frame{width, height}
		return nil
	}
	switch {
	case width == f.Width && height == f.Height:
	case t.RandomCrop():
		return fmt.Errorf("%w: this one has %dx%d pixels, the first %dx%d, and a random crop would take another part", ErrMismatch, width, height, f.Width, f.Height)
	case !f.alike(width, height):
		return fmt.Errorf("%w: this one has %dx%d pixels, the first %dx%d, which is another shape", ErrMismatch, width, height, f.Width, f.Height)
	}
	return nil
}

// alike reports whether a picture is f made smaller or larger, with sides that
// were rounded.
func (f *Frame) alike(width, height int) bool {
	a, b := int64(width)*int64(f.Height), int64(height)*int64(f.Width)
	return max(a-b, b-a) <= int64(max(width, height, f.Width, f.Height))
}
