package imaging

import "fmt"

// Jitter is the ranges of a random change of colours, as in torchvision's
// ColorJitter. Zero leaves a property as it is. It is applied on the device,
// where pictures become floats: package imaging only draws it.
type Jitter struct {
	// Factors are drawn from max(0, 1-x) to 1+x. Range 0 to 100.
	Brightness, Contrast, Saturation float64
	// The hue is turned by a part of a full turn from -Hue to Hue. Range 0 to
	// 0.5.
	Hue float64
}

// Operations of a jitter, as [Colour.Order] numbers them.
const (
	JitterBrightness = iota
	JitterContrast
	JitterSaturation
	JitterHue
)

// Colour is what a [Jitter] does to one picture in one visit.
type Colour struct {
	Brightness, Contrast, Saturation float32 // factors; 1 changes nothing
	Hue                              float32 // part of a turn; 0 changes nothing
	// Order is the sequence in which the four are applied, a permutation of
	// JitterBrightness to JitterHue.
	Order [4]uint8
}

// Draw draws the change of one visit: factors uniform in their ranges, and
// every order equally likely, as torchvision does. Equal keys give equal
// results on every machine, and ranges of zero do not change what the others
// draw. See [Transform.Plan] for the key.
func (j Jitter) Draw(key uint64) Colour {
	d := newDraws(key, forJitter)
	factor := func(x float64) float32 { return float32(d.uniform(max(0, 1-x), 1+x)) }
	c := Colour{
		Brightness: factor(j.Brightness),
		Contrast:   factor(j.Contrast),
		Saturation: factor(j.Saturation),
		Hue:        float32(d.uniform(-j.Hue, j.Hue)),
		Order:      [4]uint8{JitterBrightness, JitterContrast, JitterSaturation, JitterHue},
	}
	for i := len(c.Order) - 1; i > 0; i-- { // Fisher and Yates
		k := d.below(i + 1)
		c.Order[i], c.Order[k] = c.Order[k], c.Order[i]
	}
	return c
}

// Check fails with [ErrArgument] for ranges that there cannot be.
func (j Jitter) Check() error {
	for _, x := range []float64{j.Brightness, j.Contrast, j.Saturation} {
		if !(x >= 0 && x <= 100) {
			return fmt.Errorf("%w: jitter %v: brightness, contrast and saturation are 0 to 100", ErrArgument, j)
		}
	}
	if !(j.Hue >= 0 && j.Hue <= 0.5) {
		return fmt.Errorf("%w: jitter %v: hue is 0 to 0.5", ErrArgument, j)
	}
	return nil
}
