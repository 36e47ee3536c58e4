package photos

import (
	"errors"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/imaging"
)

// Pictures go together when the same part of them is taken.
func TestFrame(t *testing.T) {
	center, random := imaging.CenterCrop(24), imaging.RandomResizedCrop(24)
	for _, c := range []struct {
		first, second dataset.Frame
		transform     imaging.Transform
		want          string // in the error; "" is none
	}{
		{dataset.Frame{Width: 500, Height: 375}, dataset.Frame{Width: 500, Height: 375}, center, ""},
		{dataset.Frame{Width: 500, Height: 375}, dataset.Frame{Width: 500, Height: 375}, random, ""},
		{dataset.Frame{Width: 500, Height: 375}, dataset.Frame{Width: 250, Height: 188}, center, ""}, // half of it, rounded up
		{dataset.Frame{Width: 500, Height: 375}, dataset.Frame{Width: 250, Height: 187}, center, ""}, // and down
		{dataset.Frame{Width: 500, Height: 375}, dataset.Frame{Width: 1000, Height: 750}, center, ""},
		{dataset.Frame{Width: 500, Height: 375}, dataset.Frame{Width: 1000, Height: 750}, random, "1000x750 pixels, the first 500x375, and a random crop"},
		{dataset.Frame{Width: 500, Height: 375}, dataset.Frame{Width: 375, Height: 500}, center, "375x500 pixels, the first 500x375, so one of them is turned"},
		{dataset.Frame{Width: 500, Height: 375}, dataset.Frame{Width: 375, Height: 500}, random, "a random crop"},
		{dataset.Frame{Width: 500, Height: 375}, dataset.Frame{Width: 250, Height: 190}, center, "another shape"},
		{dataset.Frame{Width: 1 << 30, Height: 1}, dataset.Frame{Width: 1, Height: 1 << 30}, center, "turned"},
		{dataset.Frame{Width: 500, Height: 375}, dataset.Frame{Width: 500, Height: 375}, imaging.Stretch(9, 7), ""},
		{dataset.Frame{Width: 500, Height: 375}, dataset.Frame{Width: 375, Height: 500}, imaging.Stretch(9, 7), "turned"},
		{dataset.Frame{Width: 500, Height: 375}, dataset.Frame{Width: 512, Height: 512}, imaging.Stretch(9, 7), ""},
		{dataset.Frame{Width: 512, Height: 512}, dataset.Frame{Width: 500, Height: 375}, imaging.Stretch(9, 9), ""},
		{dataset.Frame{Width: 512, Height: 512}, dataset.Frame{Width: 500, Height: 375}, imaging.CenterCrop(512), "another shape"},
	} {
		var f dataset.Frame
		if err := join(&f, c.first.Width, c.first.Height, c.transform); err != nil || f != c.first {
			t.Fatalf("%v: %v, %v", c.first, f, err)
		}
		err := join(&f, c.second.Width, c.second.Height, c.transform)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, dataset.ErrMismatch) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v with %v, %v: %v, want %q", c.second, c.first, c.transform, err, c.want)
		}
	}
}
