package kernels

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// change is the colour of an image and the mean that its contrast needs.
type change struct {
	Colour
	mean float32
}

func loadColour(entry []byte) change {
	float := func(i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(entry[4*i:])) }
	return change{Colour: Colour{float(0), float(1), float(2), float(3), [4]uint8(entry[16:])}}
}

// apply does one operation on pixels of values from 0 to 1. Conversions in
// what follows keep the compiler from fusing.
func (by *change) apply(operation uint8, p planes) {
	switch {
	case operation == Brightness && by.Brightness != 1:
		blend(p, by.Brightness, 0)
	case operation == Contrast && by.Contrast != 1:
		blend(p, by.Contrast, by.mean)
	case operation == Saturation && by.Saturation != 1:
		saturate(p, by.Saturation)
	case operation == Hue && by.Hue != 0 && by.Hue >= -0.5 && by.Hue <= 0.5:
		turn(p, by.Hue)
	}
}

// rgb is the planes of colours, of one length.
func (p planes) rgb() (r, g, b []float32) {
	r = p[0]
	return r, p[1][:len(r)], p[2][:len(r)]
}

func grey(r, g, b float32) float32 {
	return float32(float32(0.2989*r)+float32(0.587*g)) + float32(0.114*b)
}

// sumGrey adds the greys up, as integers of 24 fraction bits, each rounded to
// nearest, ties to even.
func sumGrey(p planes) (sum uint64) {
	const integers = 1 << 52 // from here on a float64 has no fraction
	r, g, b := p.rgb()
	for i := range r {
		sum += math.Float64bits(float64(grey(r[i], g[i], b[i])*(1<<24))+integers) - math.Float64bits(integers)
	}
	return sum
}

// rest is what ratio leaves of 1.
func rest(ratio float32) float32 { return float32(1 - float64(ratio)) }

// blendOf adds the same grey to ratio of all pixels.
func blendOf(plane []float32, ratio, add float32) {
	for i, x := range plane {
		plane[i] = clamp01(float32(ratio*x) + add)
	}
}

// saturateOf adds the rest of each pixel's own grey to ratio of it.
func saturateOf(r, g, b []float32, ratio float32) {
	rest := rest(ratio)
	g, b = g[:len(r)], b[:len(r)]
	for i := range r {
		add := float32(rest * grey(r[i], g[i], b[i]))
		r[i] = clamp01(float32(ratio*r[i]) + add)
		g[i] = clamp01(float32(ratio*g[i]) + add)
		b[i] = clamp01(float32(ratio*b[i]) + add)
	}
}

func clamp01(x float32) float32 {
	switch {
	case x >= 1:
		return 1
	case x > 0:
		return x
	}
	return 0
}

// turnOf turns the hue by a part of the circle, by way of HSV. It takes no branch
// that depends on the colours: the processor could not foresee them.
func turnOf(r, g, b []float32, by float32) {
	g, b = g[:len(r)], b[:len(r)]
	for i := range r {
		// Floats from 0 up are ordered as their bits are.
		c := [4]uint32{math.Float32bits(r[i]), math.Float32bits(g[i]), math.Float32bits(b[i])}
		highest, lowest := max(c[0], c[1], c[2]), min(c[0], c[1], c[2])
		if highest == lowest {
			continue // grey stays as it is
		}
		// The first channel that is the highest. A borrow is 1.
		_, notRed := bits.Sub32(c[0], highest, 0)
		_, notGreen := bits.Sub32(c[1], highest, 0)
		channel := notRed + notRed&notGreen
		after, before := c[(0b01_00_10>>(2*channel))&3], c[(0b00_10_01>>(2*channel))&3]

		high := math.Float32frombits(highest)
		span := high - math.Float32frombits(lowest)
		s := span / high
		h := float32(int32(2*channel)) + (high-math.Float32frombits(after))/span - (high-math.Float32frombits(before))/span
		h = h/6 + 1
		h -= float32(int32(h))
		h += by
		h -= float32(int32(h) - int32(math.Float32bits(h)>>31)) // its floor
		h = float32(h * 6)
		sector := int32(h)
		f := h - float32(sector)
		// All three lie within 0 and 1.
		down, up := float32(high*(1-float32(s*f))), float32(high*(1-float32(s*(1-f))))
		v := [4]float32{high, up, float32(high * (1 - s)), down}
		to := sectors[sector&7]
		r[i], g[i], b[i] = v[to&3], v[to>>2&3], v[to>>4&3]
	}
}

// sectors says which of highest (0), up (1), lowest (2) and down (3) blue, green
// and red have in each sixth of the circle. Number 6 is for a hue that was
// rounded up to the whole circle.
var sectors = [8]uint8{0b10_01_00, 0b10_00_11, 0b01_00_10, 0b00_11_10, 0b00_10_01, 0b11_10_00, 0b10_01_00}
