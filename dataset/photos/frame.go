package photos

import (
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/imaging"
)

// join takes the size of the first picture, and fails with [dataset.ErrMismatch] for
// another one that cannot go with it by t: one of another size where crops are
// random, because those would take another part; one of another shape, unless all
// of both is taken; and one whose sides changed places, which is turned.
func join(f *dataset.Frame, width, height int, t imaging.Transform) error {
	if *f == (dataset.Frame{}) {
		*f = dataset.Frame{Width: width, Height: height}
		return nil
	}
	like := alike(f, width, height)
	why := ""
	switch {
	case width == f.Width && height == f.Height:
	case t.RandomCrop():
		why = "and a random crop would take another part"
	case !like && alike(f, height, width):
		why = "so one of them is turned"
	case !like && !(whole(t, width, height) && whole(t, f.Width, f.Height)):
		why = "and another part would be taken of another shape"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: this one has %dx%d pixels, the first %dx%d, %s", dataset.ErrMismatch, width, height, f.Width, f.Height, why)
}

// whole reports whether t, without a random crop, takes all of a picture.
func whole(t imaging.Transform, width, height int) bool {
	p := t.Plan(width, height, 0)
	return p.X.Full == p.X.N && p.Y.Full == p.Y.N
}

// alike reports whether a picture is f made smaller or larger, with sides that
// were rounded.
func alike(f *dataset.Frame, width, height int) bool {
	a, b := int64(width)*int64(f.Height), int64(height)*int64(f.Width)
	return max(a-b, b-a) <= int64(max(width, height, f.Width, f.Height))
}
