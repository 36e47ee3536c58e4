// Package cudnntest computes convolutions on the host, as the tests of what uses cuDNN
// compare with.
package cudnntest

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/step/internal/cudnn"
)

// Compute computes a convolution: into the side of image, filter and result that its kind
// says.
func Compute(c cudnn.Convolution, image, filter, result []byte) {
	sides := [3]side{sideOf(c, c.Image, image), sideOf(c, c.Filter, filter), sideOf(c, c.Result, result)}
	to := &sides[map[cudnn.Kind]int{cudnn.Forward: 2, cudnn.BackwardData: 0, cudnn.BackwardFilter: 1}[c.Kind]]
	sums := make([]float64, len(to.data)/c.Type.Size())
	x, w, y := &sides[0], &sides[1], &sides[2]
	made := c.Filter[0] / c.Groups()
	each(c.Result, func(aty []int) {
		each(c.Filter[1:], func(rest []int) {
			atx := []int{aty[0], aty[1]/made*c.Filter[1] + rest[0]}
			for i, r := range rest[1:] {
				at := aty[2+i]*c.Strides[i] + r*c.Dilation[i] - c.Low[i]
				if at < 0 || at >= c.Image[2+i] {
					return
				}
				atx = append(atx, at)
			}
			ox, ow, oy := x.at(atx), w.at(append([]int{aty[1]}, rest...)), y.at(aty)
			switch c.Kind {
			case cudnn.Forward:
				sums[oy] += x.get(ox) * w.get(ow)
			case cudnn.BackwardData:
				sums[ox] += y.get(oy) * w.get(ow)
			default:
				sums[ow] += y.get(oy) * x.get(ox)
			}
		})
	})
	for i, v := range sums {
		to.put(i, v)
	}
}

// each calls f with each index.
func each(dims []int, f func(at []int)) {
	at := make([]int, len(dims))
	for {
		f(at)
		i := len(dims) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < dims[i] {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

type side struct {
	t       dtype.DType
	strides []int
	data    []byte
}

func sideOf(c cudnn.Convolution, dims []int, data []byte) side {
	var order []int
	for i := range dims {
		if i != 1 || !c.ChannelsLast {
			order = append(order, i)
		}
	}
	if c.ChannelsLast {
		order = append(order, 1)
	}
	strides, n := make([]int, len(dims)), 1
	for _, axis := range slices.Backward(order) {
		strides[axis] = n
		n *= dims[axis]
	}
	return side{c.Type, strides, data[:n*c.Type.Size()]}
}

func (s *side) at(index []int) (offset int) {
	for i, x := range index {
		offset += x * s.strides[i]
	}
	return offset
}

func (s *side) get(i int) float64 {
	switch s.t {
	case dtype.F16:
		return float64(float16.FromF16(binary.LittleEndian.Uint16(s.data[2*i:])))
	case dtype.BF16:
		return float64(float16.FromBF16(binary.LittleEndian.Uint16(s.data[2*i:])))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(s.data[4*i:])))
}

func (s *side) put(i int, v float64) {
	switch s.t {
	case dtype.F16:
		binary.LittleEndian.PutUint16(s.data[2*i:], float16.ToF16(float32(v)))
	case dtype.BF16:
		binary.LittleEndian.PutUint16(s.data[2*i:], float16.ToBF16(float32(v)))
	default:
		binary.LittleEndian.PutUint32(s.data[4*i:], math.Float32bits(float32(v)))
	}
}
