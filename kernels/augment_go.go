package kernels

import (
	"encoding/binary"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
)

func (j *augmentJob) call(c device.Caller, s device.Stream) error {
	elements := j.images * j.pixels * int64(j.channels)
	dst, err := c.Bytes(j.dst, elements*int64(j.dt.Size()))
	if err != nil {
		return err
	}
	src, err := c.Bytes(j.src, elements*int64(j.from.Size()))
	if err != nil {
		return err
	}
	var colours, mix []byte
	if j.colours != 0 {
		if colours, err = c.Bytes(j.colours, j.images*ColourBytes); err != nil {
			return err
		}
	}
	if j.mix != 0 {
		if mix, err = c.Bytes(j.mix, j.images*4); err != nil {
			return err
		}
	}
	return c.Call(s, func() error {
		if j.from == dtype.U16 {
			return augmentFrom[uint16](j, dst, src, colours, mix)
		}
		return augmentFrom[uint8](j, dst, src, colours, mix)
	})
}

// augmenter holds what a job reads; colours and mix may be nil.
type augmenter[S uint8 | uint16] struct {
	*augmentJob
	src          []S
	largest      float32 // sample
	colours, mix []byte
}

func augmentFrom[S uint8 | uint16](j *augmentJob, dst, src, colours, mix []byte) error {
	samples, err := view[S](src)
	if err != nil {
		return err
	}
	a := &augmenter[S]{j, samples, float32(largest(j.from)), colours, mix}
	switch j.dt {
	case j.from:
		return augment(a, dst, a.toSample)
	case dtype.F16:
		return augment(a, dst, float16.ToF16)
	case dtype.BF16:
		return augment(a, dst, float16.ToBF16)
	}
	return augment(a, dst, math.Float32bits)
}

func augment[S uint8 | uint16, T uint8 | uint16 | uint32](a *augmenter[S], dst []byte, bits func(float32) T) error {
	out, err := view[T](dst)
	if err != nil {
		return err
	}
	changes := make([]change, a.images)
	for n := range changes {
		changes[n] = a.change(n)
	}
	plane, channels := int(a.pixels), a.channels
	for n := range changes {
		lambda := a.lambda(n)
		partner := (n + len(changes)/2) % len(changes)
		for i := range plane {
			v := a.pixel(n, i, &changes[n])
			if lambda < 1 {
				w := a.pixel(partner, i, &changes[partner])
				for c := range channels {
					v[c] = float32(lambda*v[c]) + float32((1-lambda)*w[c])
				}
			}
			for c := range channels {
				out[(n*channels+c)*plane+i] = bits(v[c])
			}
		}
	}
	return nil
}

// pixel is pixel i of image n, with its colours changed and normalised.
func (a *augmenter[S]) pixel(n, i int, by *change) (v [4]float32) {
	in := a.raw(n, i)
	if by.none {
		for c, x := range in {
			v[c] = float32(x)
		}
	} else {
		p := a.rgb(in)
		for _, operation := range by.Order {
			p = by.apply(operation, p)
		}
		v = [4]float32{p.r * a.largest, p.g * a.largest, p.b * a.largest}
	}
	for c := range in {
		v[c] = float32(v[c]*a.scale[c]) + a.bias[c]
	}
	return v
}

// raw is the samples of pixel i of image n.
func (a *augmenter[S]) raw(n, i int) []S {
	return a.src[(n*int(a.pixels)+i)*a.channels:][:a.channels]
}

// rgb is samples as colours.
func (a *augmenter[S]) rgb(v []S) rgb {
	return rgb{float32(v[0]) / a.largest, float32(v[1]) / a.largest, float32(v[2]) / a.largest}
}

// lambda is that of image n; 1 is no mixing.
func (a *augmenter[S]) lambda(n int) float32 {
	if a.mix == nil {
		return 1
	}
	lambda := math.Float32frombits(binary.LittleEndian.Uint32(a.mix[4*n:]))
	if !(lambda >= 0) {
		return 1
	}
	return lambda
}

// change is the colour of an image and the mean that its contrast needs.
type change struct {
	Colour
	mean float32
	none bool // there is no table
}

func (a *augmenter[S]) change(n int) change {
	if a.colours == nil {
		return change{none: true}
	}
	entry := a.colours[n*colourEntryBytes:][:colourEntryBytes]
	float := func(i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(entry[4*i:])) }
	by := change{Colour: Colour{float(0), float(1), float(2), float(3), [4]uint8(entry[16:])}}
	if by.Contrast == 1 {
		return by
	}
	sum := uint64(0)
	for i := range int(a.pixels) {
		p := a.rgb(a.raw(n, i))
		for _, operation := range by.Order {
			if operation == Contrast {
				break
			}
			p = by.apply(operation, p)
		}
		sum += uint64(math.RoundToEven(float64(p.grey() * (1 << 24))))
	}
	by.mean = float32(float64(sum) / float64(float64(a.pixels)*(1<<24)))
	return by
}

// rgb is a pixel of values from 0 to 1. Conversions in what follows keep the
// compiler from fusing.
type rgb struct{ r, g, b float32 }

func (p rgb) grey() float32 {
	return float32(float32(0.2989*p.r)+float32(0.587*p.g)) + float32(0.114*p.b)
}

// blend is ratio of p and the rest of the same grey.
func (p rgb) blend(ratio, other float32) rgb {
	add := float32(float32(1-float64(ratio)) * other)
	return rgb{
		clamp01(float32(ratio*p.r) + add),
		clamp01(float32(ratio*p.g) + add),
		clamp01(float32(ratio*p.b) + add),
	}
}

func (by *change) apply(operation uint8, p rgb) rgb {
	switch {
	case operation == Brightness && by.Brightness != 1:
		return p.blend(by.Brightness, 0)
	case operation == Contrast && by.Contrast != 1:
		return p.blend(by.Contrast, by.mean)
	case operation == Saturation && by.Saturation != 1:
		return p.blend(by.Saturation, p.grey())
	case operation == Hue && by.Hue != 0 && by.Hue >= -0.5 && by.Hue <= 0.5:
		return p.turn(by.Hue)
	}
	return p
}

// turn turns the hue by a part of the circle, by way of HSV.
func (p rgb) turn(by float32) rgb {
	high, low := max(p.r, p.g, p.b), min(p.r, p.g, p.b)
	var s, h float32
	if span := high - low; span != 0 {
		s = span / high
		sixths, after, before := float32(4), p.g, p.r // of the circle, to the highest channel
		switch high {
		case p.r:
			sixths, after, before = 0, p.b, p.g
		case p.g:
			sixths, after, before = 2, p.r, p.b
		}
		h = sixths + (high-after)/span - (high-before)/span
		h = h/6 + 1
		if h >= 1 {
			h--
		}
	}
	h += by
	h = float32((h - floor(h)) * 6)
	sector := floor(h)
	f := h - sector
	down, up, least := less(high, float32(s*f)), less(high, float32(s*(1-f))), less(high, s)
	switch int(sector) {
	case 1:
		return rgb{down, high, least}
	case 2:
		return rgb{least, high, up}
	case 3:
		return rgb{least, down, high}
	case 4:
		return rgb{up, least, high}
	case 5:
		return rgb{high, least, down}
	}
	return rgb{high, up, least} // 0, and 6 where the hue was rounded up to 1
}

// less is v * (1 - part), within 0 and 1.
func less(v, part float32) float32 { return clamp01(v * (1 - part)) }

func floor(x float32) float32 { return float32(math.Floor(float64(x))) }

func clamp01(x float32) float32 {
	switch {
	case x >= 1:
		return 1
	case x > 0:
		return x
	}
	return 0
}

// toSample rounds to nearest, ties to even.
func (a *augmenter[S]) toSample(x float32) S {
	switch {
	case x >= a.largest:
		return S(a.largest)
	case x > 0:
		return S(math.RoundToEven(float64(x)))
	}
	return 0
}
