package kernels

import (
	"bytes"
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

// augmenter holds what a job reads, and scratch memory; colours and mix may be
// nil.
type augmenter[S uint8 | uint16] struct {
	*augmentJob
	src          []S
	largest      float32 // sample
	colours, mix []byte
	unit         []float32 // samples from 0 to 1, by sample; for bytes only
}

func augmentFrom[S uint8 | uint16](j *augmentJob, dst, src, colours, mix []byte) error {
	samples, err := view[S](src)
	if err != nil {
		return err
	}
	a := &augmenter[S]{augmentJob: j, src: samples, largest: float32(largest(j.from)), colours: colours, mix: mix}
	switch j.dt {
	case j.from:
		return augment(a, dst, a.toSamples)
	case dtype.F16:
		return augment(a, dst, toF16)
	case dtype.BF16:
		return augment(a, dst, toBF16)
	}
	return augment(a, dst, toF32)
}

// augment works every image out once. Where images are mixed, it goes from each
// to its partner, until it is back at the first.
func augment[S uint8 | uint16, T uint8 | uint16 | uint32](a *augmenter[S], dst []byte, narrow func(dst []T, src []float32)) error {
	out, err := view[T](dst)
	if err != nil {
		return err
	}
	images, step := int(a.images), 0
	scratch := []planes{a.newPlanes()}
	if a.mix != nil {
		step = images / 2
		scratch = append(scratch, a.newPlanes(), a.newPlanes())
	}
	done := make([]bool, images)
	for first := range images {
		if done[first] {
			continue
		}
		own := scratch[0]
		a.image(own, first)
		for n, k := first, 1; ; k = 3 - k {
			done[n] = true
			partner, other := (n+step)%images, scratch[0]
			if partner != first {
				other = scratch[k]
				a.image(other, partner)
			}
			write(a, out, n, own, other, narrow)
			if partner == first {
				break
			}
			n, own = partner, other
		}
	}
	return nil
}

// write mixes image n with the other one and writes it.
func write[S uint8 | uint16, T uint8 | uint16 | uint32](a *augmenter[S], out []T, n int, own, other planes, narrow func(dst []T, src []float32)) {
	plane := int(a.pixels)
	lambda := a.lambda(n)
	var mixed [chunk]float32
	for c := range a.channels {
		to := out[(n*a.channels+c)*plane:][:plane]
		if lambda == 1 {
			narrow(to, own[c])
			continue
		}
		for at := 0; at < plane; at += chunk {
			v, w := own[c][at:min(at+chunk, plane)], other[c][at:min(at+chunk, plane)]
			for i := range v {
				mixed[i] = float32(lambda*v[i]) + float32((1-lambda)*w[i])
			}
			narrow(to[at:], mixed[:len(v)])
		}
	}
}

// lambda is the share of image n in what it becomes; 1 is no mixing.
func (a *augmenter[S]) lambda(n int) float32 {
	if a.mix == nil {
		return 1
	}
	lambda := math.Float32frombits(binary.LittleEndian.Uint32(a.mix[4*n:]))
	if !(lambda >= 0 && lambda < 1) {
		return 1
	}
	return lambda
}

// planes are the channels of an image, or of a part of it.
type planes [4][]float32

func (a *augmenter[S]) newPlanes() (p planes) {
	for c := range a.channels {
		p[c] = make([]float32, a.pixels)
	}
	return p
}

// chunk is the pixels that are worked on at a time, so that they stay in the
// processor's first cache from one operation to the next.
const chunk = 1024

// part is number k of the chunks of p.
func (p planes) part(k int) planes {
	for c, plane := range p {
		if plane != nil {
			p[c] = plane[k*chunk : min((k+1)*chunk, len(plane))]
		}
	}
	return p
}

// image fills p with image n, its colours changed, normalised.
func (a *augmenter[S]) image(p planes, n int) {
	src := a.src[n*int(a.pixels)*a.channels:][:int(a.pixels)*a.channels]
	chunks := (int(a.pixels) + chunk - 1) / chunk
	if a.colours == nil {
		for k := range chunks {
			a.load(p.part(k), src[k*chunk*a.channels:])
		}
		return
	}
	by := loadColour(a.colours[n*colourEntryBytes:][:colourEntryBytes])
	before, after := by.Order[:], []uint8{}
	if at := bytes.IndexByte(before, Contrast); at >= 0 && by.Contrast != 1 {
		before, after = before[:at], before[at:]
	}
	sum := uint64(0)
	for k := range chunks {
		part := p.part(k)
		a.loadRGB(part, src[k*chunk*3:])
		for _, operation := range before {
			by.apply(operation, part)
		}
		if len(after) > 0 {
			sum += sumGrey(part)
		}
	}
	by.mean = float32(float64(sum) / float64(float64(a.pixels)*(1<<24)))
	for k := range chunks {
		part := p.part(k)
		for _, operation := range after {
			by.apply(operation, part)
		}
		for c := range 3 {
			scale, bias := a.scale[c], a.bias[c]
			for i, x := range part[c] {
				part[c][i] = float32(float32(x*a.largest)*scale) + bias
			}
		}
	}
}

// load fills p with samples, normalised.
func (a *augmenter[S]) load(p planes, src []S) {
	for c := range a.channels {
		scale, bias := a.scale[c], a.bias[c]
		for i := range p[c] {
			p[c][i] = float32(float32(src[i*a.channels+c])*scale) + bias
		}
	}
}

// loadRGB fills p with samples from 0 to 1.
func (a *augmenter[S]) loadRGB(p planes, src []S) {
	if len(a.unit) == 0 {
		a.unit = make([]float32, int(a.largest)+1)
		for x := range a.unit {
			a.unit[x] = float32(x) / a.largest
		}
	}
	r, g, b := p.rgb()
	src = src[:3*len(r)]
	for i := range r {
		v := src[3*i:][:3]
		r[i], g[i], b[i] = a.unit[v[0]], a.unit[v[1]], a.unit[v[2]]
	}
}

// toSamples rounds to nearest, ties to even.
func (a *augmenter[S]) toSamples(dst []S, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		switch {
		case x >= a.largest:
			dst[i] = S(a.largest)
		case x > 0:
			dst[i] = S(math.RoundToEven(float64(x)))
		default:
			dst[i] = 0
		}
	}
}

func toF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = float16.ToF16(x)
	}
}

func toBF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = float16.ToBF16(x)
	}
}

func toF32(dst []uint32, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = math.Float32bits(x)
	}
}
