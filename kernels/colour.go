package kernels

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
)

// The operations of a [Colour], as its Order names them.
const (
	Brightness uint8 = iota
	Contrast
	Saturation
	Hue
)

// Colour says how the colours of one image change: with which factors, and in
// which order. The operations are those of torchvision's ColorJitter on float
// tensors of values from 0 to 1, clamped to that after each:
//
//   - Brightness b: b*x.
//   - Contrast c: c*x + (1-c)*m, where m is the mean grey of the whole image
//     as it is at that point.
//   - Saturation s: s*x + (1-s)*g, where g is the pixel's grey.
//   - Hue h: the hue turns by h of the circle, by way of HSV.
//
// Grey is 0.2989 R + 0.587 G + 0.114 B. The mean is a sum of integers of 24
// fraction bits and so the same on every device. A factor of 1, or a hue of 0,
// changes nothing and takes no time.
type Colour struct {
	Brightness, Contrast, Saturation float32 // finite, 0 or more
	Hue                              float32 // -0.5 to 0.5
	Order                            [4]uint8
}

func (c Colour) check() error {
	for _, factor := range []float32{c.Brightness, c.Contrast, c.Saturation} {
		if !(factor >= 0 && factor <= math.MaxFloat32) {
			return fmt.Errorf("%w: brightness, contrast and saturation of %g, %g and %g; they are finite and not negative",
				device.ErrArgument, c.Brightness, c.Contrast, c.Saturation)
		}
	}
	if !(c.Hue >= -0.5 && c.Hue <= 0.5) {
		return fmt.Errorf("%w: a hue of %g; -0.5 to 0.5 is possible", device.ErrArgument, c.Hue)
	}
	seen := 0
	for _, operation := range c.Order {
		seen |= 1 << operation
	}
	if seen != 1<<len(c.Order)-1 {
		return fmt.Errorf("%w: order %d; it has 0 to %d once each", device.ErrArgument, c.Order, len(c.Order)-1)
	}
	return nil
}

// ColourBytes is the size of a table of colours for one image. A table of n is
// n entries of 24 bytes, as augment.cuh has them, and then n sums of 8 that the
// device writes.
const ColourBytes = colourEntryBytes + greySumBytes

const (
	colourEntryBytes = 24
	greySumBytes     = 8
)

// AppendColours appends the table of a batch for [Normalize].Colours to b and
// returns it. It fails with [device.ErrArgument] and appends nothing then.
func AppendColours(b []byte, colours ...Colour) ([]byte, error) {
	for i, c := range colours {
		if err := c.check(); err != nil {
			return b, fmt.Errorf("kernels: colours: number %d of %d: %w", i, len(colours), err)
		}
	}
	for _, c := range colours {
		for _, factor := range []float32{c.Brightness, c.Contrast, c.Saturation, c.Hue} {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(factor))
		}
		b = append(b, c.Order[:]...)
		b = append(b, 0, 0, 0, 0)
	}
	return append(b, make([]byte, greySumBytes*len(colours))...), nil
}

// AppendMix appends the table of a batch for [Normalize].Mix to b and returns
// it: lambda from 0 to 1 for each image, where 1 leaves it alone. It fails with
// [device.ErrArgument] and appends nothing then.
func AppendMix(b []byte, lambdas ...float32) ([]byte, error) {
	for i, lambda := range lambdas {
		if !(lambda >= 0 && lambda <= 1) {
			return b, fmt.Errorf("kernels: mix: %w: number %d of %d is %g; 0 to 1 is possible",
				device.ErrArgument, i, len(lambdas), lambda)
		}
	}
	for _, lambda := range lambdas {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(lambda))
	}
	return b, nil
}
