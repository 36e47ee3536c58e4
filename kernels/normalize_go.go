package kernels

import (
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
)

func (j *normalizeJob) call(c device.Caller, s device.Stream) error {
	elements := j.images * j.pixels * int64(j.channels)
	dst, err := c.Bytes(j.dst, elements*int64(j.dt.Size()))
	if err != nil {
		return err
	}
	src, err := c.Bytes(j.src, elements*int64(j.from.Size()))
	if err != nil {
		return err
	}
	return c.Call(s, func() error {
		switch j.dt {
		case dtype.U8:
			return normalize(j, dst, src, func(x float32) uint8 { return uint8(x) })
		case dtype.U16:
			return normalize(j, dst, src, func(x float32) uint16 { return uint16(x) })
		case dtype.F16:
			return normalize(j, dst, src, float16.ToF16)
		case dtype.BF16:
			return normalize(j, dst, src, float16.ToBF16)
		}
		return normalize(j, dst, src, math.Float32bits)
	})
}

func normalize[T uint8 | uint16 | uint32](j *normalizeJob, dst, src []byte, bits func(float32) T) error {
	out, err := view[T](dst)
	if err != nil {
		return err
	}
	if j.from == dtype.U8 {
		normalizeBytes(j, out, src, bits)
		return nil
	}
	in, err := view[uint16](src)
	if err != nil {
		return err
	}
	normalizeWords(j, out, in, bits)
	return nil
}

// normalizeWords works every sample out.
func normalizeWords[T uint8 | uint16 | uint32](j *normalizeJob, out []T, src []uint16, bits func(float32) T) {
	plane := int(j.pixels)
	image := plane * j.channels
	for ; len(src) > 0; src, out = src[image:], out[image:] {
		for c := range j.channels {
			scale, bias := j.scale[c], j.bias[c]
			for i := range plane {
				// The conversion keeps the compiler from fusing.
				out[c*plane+i] = bits(float32(float32(src[i*j.channels+c])*scale) + bias)
			}
		}
	}
}

// normalizeBytes looks results up: a channel has only 256.
func normalizeBytes[T uint8 | uint16 | uint32](j *normalizeJob, out []T, src []byte, bits func(float32) T) {
	var tables [4][256]T
	for c := range j.channels {
		for x := range 256 {
			// The conversion keeps the compiler from fusing.
			tables[c][x] = bits(float32(float32(x)*j.scale[c]) + j.bias[c])
		}
	}
	plane := int(j.pixels)
	image := plane * j.channels
	for ; len(src) > 0; src, out = src[image:], out[image:] {
		if j.channels == 3 {
			planes3(out[:plane], out[plane:2*plane], out[2*plane:3*plane], src[:image], &tables)
			continue
		}
		for c := range j.channels {
			onePlane(out[c*plane:][:plane], src[c:image], j.channels, &tables[c])
		}
	}
}

func planes3[T any](d0, d1, d2 []T, src []byte, tables *[4][256]T) {
	t0, t1, t2 := &tables[0], &tables[1], &tables[2]
	d1, d2 = d1[:len(d0)], d2[:len(d0)]
	for i := range d0 {
		pixel := src[3*i:][:3]
		d0[i] = t0[pixel[0]]
		d1[i] = t1[pixel[1]]
		d2[i] = t2[pixel[2]]
	}
}

func onePlane[T any](dst []T, src []byte, step int, table *[256]T) {
	for i := range dst {
		dst[i] = table[src[i*step]]
	}
}
