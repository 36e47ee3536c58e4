package dataset

import (
	"errors"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/imaging"
)

// Pictures go together when the same part of them is taken.
func TestFrame(t *testing.T) {
	center, random := imaging.CenterCrop(24), imaging.RandomResizedCrop(24)
	for _, c := range []struct {
		first, second Frame
		transform     imaging.Transform
		want          string // in the error; "" is none
	}{
		{Frame{500, 375}, Frame{500, 375}, center, ""},
		{Frame{500, 375}, Frame{500, 375}, random, ""},
		{Frame{500, 375}, Frame{250, 188}, center, ""}, // half of it, rounded up
		{Frame{500, 375}, Frame{250, 187}, center, ""}, // and down
		{Frame{500, 375}, Frame{1000, 750}, center, ""},
		{Frame{500, 375}, Frame{1000, 750}, random, "1000x750 pixels, the first 500x375, and a random crop"},
		{Frame{500, 375}, Frame{375, 500}, center, "375x500 pixels, the first 500x375, so one of them is turned"},
		{Frame{500, 375}, Frame{375, 500}, random, "a random crop"},
		{Frame{500, 375}, Frame{250, 190}, center, "another shape"},
		{Frame{1 << 30, 1}, Frame{1, 1 << 30}, center, "turned"},
		{Frame{500, 375}, Frame{500, 375}, imaging.Stretch(9, 7), ""},
		{Frame{500, 375}, Frame{375, 500}, imaging.Stretch(9, 7), "turned"},
		{Frame{500, 375}, Frame{512, 512}, imaging.Stretch(9, 7), ""},
		{Frame{512, 512}, Frame{500, 375}, imaging.Stretch(9, 9), ""},
		{Frame{512, 512}, Frame{500, 375}, imaging.CenterCrop(512), "another shape"},
	} {
		var f Frame
		if err := f.join(c.first.Width, c.first.Height, c.transform); err != nil || f != c.first {
			t.Fatalf("%v: %v, %v", c.first, f, err)
		}
		err := f.join(c.second.Width, c.second.Height, c.transform)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v with %v, %v: %v, want %q", c.second, c.first, c.transform, err, c.want)
		}
	}
}
