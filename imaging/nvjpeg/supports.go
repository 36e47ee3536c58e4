package nvjpeg

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/imaging"
)

// hardwareSide is the longest side that the engines take, in pixels.
const hardwareSide = 16384

// Luma of a picture whose chroma is sampled 1x1.
var (
	hardwareLuma = []Sampling{{1, 1}, {2, 1}, {2, 2}, {1, 2}}                 // 4:4:4, 4:2:2, 4:2:0, 4:4:0
	kernelLuma   = append(hardwareLuma[:4:4], Sampling{4, 1}, Sampling{4, 2}) // 4:1:1, 4:1:0
)

// Supports tells from the header whether the decoder takes a picture:
// sequential, of 8 bits, grey or YCbCr in one scan, with the usual chroma
// subsampling (4:4:4, 4:2:2, 4:2:0, 4:4:0; on CUDA 4:1:1 and 4:1:0 too), and
// neither too large nor, for the engines, longer than 16384 pixels.
func (d *Decoder) Supports(h Header) bool { return d.refuses(h) == nil }

// refuses returns why the decoder does not take a picture.
func (d *Decoder) refuses(h Header) error {
	side, luma := 65535, kernelLuma
	if d.engines > 0 {
		side, luma = hardwareSide, hardwareLuma
	}
	no := func(sentinel error, why string) error {
		return fmt.Errorf("%w: JPEG of %dx%d pixels: %s", sentinel, h.Width, h.Height, why)
	}
	one := Sampling{1, 1}
	switch {
	case h.Width < 1 || h.Height < 1:
		return no(imaging.ErrDamaged, "no pixels")
	case h.Width > side || h.Height > side:
		return no(imaging.ErrTooLarge, fmt.Sprintf("sides may have %d", side))
	case int64(h.Width)*int64(h.Height) > int64(d.options.MaxPixels):
		return no(imaging.ErrTooLarge, fmt.Sprintf("the limit is %d", d.options.MaxPixels))
	case h.Precision != 8:
		return no(imaging.ErrFormat, fmt.Sprintf("%d bits a sample", h.Precision))
	case h.Progressive:
		return no(imaging.ErrFormat, "progressive")
	case h.Components != 1 && h.Components != 3:
		return no(imaging.ErrFormat, fmt.Sprintf("%d components", h.Components))
	case h.RGB:
		return no(imaging.ErrFormat, "RGB, not YCbCr")
	case !h.Interleaved:
		return no(imaging.ErrFormat, "several scans")
	case h.Components == 1 && h.Sampling[0] != one,
		h.Components == 3 && (h.Sampling[1] != one || h.Sampling[2] != one || !slices.Contains(luma, h.Sampling[0])):
		return no(imaging.ErrFormat, fmt.Sprintf("sampled %v", h.Sampling[:h.Components]))
	}
	return nil
}
