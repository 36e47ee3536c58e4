package kernels

import (
	"errors"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
)

func (j *resampleJob) call(c device.Caller, s device.Stream) error {
	image := int64(j.width) * int64(j.height) * 3
	dst, err := c.Bytes(j.dst, j.images*image)
	if err != nil {
		return err
	}
	table, err := c.Bytes(j.table, j.images*PictureBytes)
	if err != nil {
		return err
	}
	entries, err := view[resampleEntry](table)
	if err != nil {
		return err
	}
	return c.Call(s, func() error {
		for i, e := range entries {
			src, err := e.source(c, j.width, j.height)
			if err != nil {
				return fmt.Errorf("kernels: resample: entry %d of %d: %w", i, j.images, err)
			}
			e.resample(dst[int64(i)*image:][:image], src, j.width)
		}
		return nil
	})
}

// box is the pixels that an entry reads.
type box struct {
	pix          []byte
	origin       int64 // of the first pixel in reading order
	stepX, stepY int64
}

// source finds the box of an entry that may have been overwritten since it
// was checked.
func (e *resampleEntry) source(c device.Caller, width, height int) (box, error) {
	if err := errors.Join(e.x.axis().check(maxSide, width), e.y.axis().check(maxSide, height)); err != nil {
		return box{}, err
	}
	if max(e.stepX, -e.stepX, e.stepY, -e.stepY) > maxPitch || Filter(e.filter) > Bicubic {
		return box{}, fmt.Errorf("%w: steps of %d and %d bytes, filter %d", device.ErrArgument, e.stepX, e.stepY, e.filter)
	}
	right, down := int64(e.x.in-1)*e.stepX, int64(e.y.in-1)*e.stepY
	before := -min(right, 0) - min(down, 0)
	behind := max(right, 0) + max(down, 0) + 3
	pix, err := c.Bytes(e.src.Add(-before), before+behind)
	return box{pix, before, e.stepX, e.stepY}, err
}

func (a resampleAxis) axis() Axis { return Axis{0, int(a.in), int(a.out), int(a.first)} }

// resample makes the sample dst, rows of width pixels.
func (e *resampleEntry) resample(dst []byte, src box, width int) {
	height := len(dst) / (3 * width)
	across := make([]outputTaps, width)
	for x := range across {
		across[x] = e.x.taps(x, Filter(e.filter))
	}
	lines := map[int][]byte{} // source rows that are scaled horizontally
	for y := range height {
		down := e.y.taps(y, Filter(e.filter))
		for row := range lines {
			if row < down.low {
				delete(lines, row)
			}
		}
		for t := range down.weights {
			if row := down.low + t; lines[row] == nil {
				lines[row] = src.scaledRow(row, across)
			}
		}
		for x := range width {
			sums := [3]int32{half, half, half}
			for t, w := range down.weights {
				pixel := lines[down.low+t][3*x:][:3]
				for c, v := range pixel {
					sums[c] += int32(v) * w
				}
			}
			to := x
			if e.mirror != 0 {
				to = width - 1 - x
			}
			for c, sum := range sums {
				dst[3*(y*width+to)+c] = clip(sum)
			}
		}
	}
}

func (b *box) scaledRow(row int, across []outputTaps) []byte {
	line := make([]byte, 0, 3*len(across))
	start := b.origin + int64(row)*b.stepY
	for _, taps := range across {
		sums := [3]int32{half, half, half}
		at := start + int64(taps.low)*b.stepX
		for _, w := range taps.weights {
			for c, v := range b.pix[at:][:3] {
				sums[c] += int32(v) * w
			}
			at += b.stepX
		}
		line = append(line, clip(sums[0]), clip(sums[1]), clip(sums[2]))
	}
	return line
}

func clip(sum int32) byte { return byte(min(max(sum>>weightBits, 0), 255)) }

const (
	weightBits = 32 - 8 - 2            // fraction bits of a weight
	half       = 1 << (weightBits - 1) // rounds a sum to nearest
)

// outputTaps is what one output is made of: source pixels from low on.
type outputTaps struct {
	low     int
	weights []int32
}

// taps works out the weights of output i of those that are kept, as Pillow
// does (precompute_coeffs and normalize_coeffs_8bpc of its Resample.c).
// Conversions keep the compiler from fusing.
//
// Package imaging has these weights, too, but for more kinds of axes and laid
// out for vector code. This is not shared: it follows resample.cuh line by line,
// which it is compared with. Tests hold both to Pillow's results.
func (a resampleAxis) taps(i int, f Filter) outputTaps {
	scale := float64(a.in) / float64(a.out)
	stretch := max(scale, 1)
	support := float64(f.support() * stretch)
	inverse := 1 / stretch
	center := float64((float64(int(a.first)+i) + 0.5) * scale)
	low := max(int(center-support+0.5), 0)
	high := min(int(center+support+0.5), int(a.in))

	values := make([]float64, high-low)
	sum := 0.0
	for t := range values {
		values[t] = f.value(float64((float64(low+t) - center + 0.5) * inverse))
		sum += values[t]
	}
	weights := make([]int32, len(values))
	for t, v := range values {
		if sum != 0 {
			v /= sum
		}
		round := 0.5
		if v < 0 {
			round = -0.5
		}
		weights[t] = int32(float64(v*(1<<weightBits)) + round)
	}
	return outputTaps{low, weights}
}

// value is the filter at a distance of x pixels.
func (f Filter) value(x float64) float64 {
	x = math.Abs(x)
	switch {
	case f == Bilinear && x < 1:
		return 1 - x
	case f == Bicubic && x < 1:
		t := float64(1.5*x) - 2.5
		return float64(float64(t*x)*x) + 1
	case f == Bicubic && x < 2:
		t := float64((x-5)*x) + 8
		return (float64(t*x) - 4) * -0.5
	}
	return 0
}
