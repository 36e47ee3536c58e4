// Package convolving finds out which of the library's convolutions an operation is:
// front ends have one operation for all, and write gradients as convolutions, too.
package convolving

import (
	"slices"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/access"
	"github.com/pinion-gpu/pinion/step/internal/cudnn"
)

// Side is one of the three sides of a library's convolution, by way of a value in memory:
// its axes, from the first element on.
type Side struct {
	Value           graph.Value
	First           int              // element
	outer, channels []access.Strided // batch, or the channels that a filter makes
	spatial         []access.Strided
}

// Axes are those of a side in the order that the library wants in memory.
func (s *Side) Axes(channelsLast bool) []access.Strided {
	if channelsLast {
		return slices.Concat(s.outer, s.spatial, s.channels)
	}
	return slices.Concat(s.outer, s.channels, s.spatial)
}

// Lies says whether the side's value lies in memory as the library wants it.
func (s *Side) Lies(channelsLast bool) bool {
	n := 1
	for _, a := range slices.Backward(s.Axes(channelsLast)) {
		if a.Count > 1 && a.Stride != n {
			return false
		}
		n *= a.Count
	}
	return s.First == 0
}

func (s *Side) dims() []int {
	dims := []int{1, 1}
	for _, a := range s.outer {
		dims[0] *= a.Count
	}
	for _, a := range s.channels {
		dims[1] *= a.Count
	}
	for _, a := range s.spatial {
		dims = append(dims, a.Count)
	}
	return dims
}

// The sides of a library's convolution, in order.
const (
	Image = iota
	Filter
	Result
)

// Of is a ConvGeneral as the library has it: forward, or one of the gradients, which are
// convolutions with other axes, dilations, and a filter that is reversed. Where there is
// more than one way, least is copied. k is the kernel, before it was reversed along the
// axes that reversed says.
func Of(n *graph.Node, k graph.Value, reversed []bool) (best cudnn.Convolution, sides [3]Side, ok bool) {
	x, out := n.Inputs[0], n.Value(0)
	t := out.Shape().Type
	if t != dtype.F32 && t != dtype.F16 && t != dtype.BF16 || out.Shape().Size() == 0 || x.Shape().Size() == 0 || k.Shape().Size() == 0 {
		return best, sides, false
	}
	least := 0
	for _, kind := range []cudnn.Kind{cudnn.Forward, cudnn.BackwardData, cudnn.BackwardFilter} {
		c, s, fits := as(kind, n.Attr.(*graph.ConvAxes), x, k, out, reversed)
		if !fits {
			continue
		}
		for _, last := range []bool{true, false} {
			c.ChannelsLast = last
			if cost := copied(&s, last); !ok || cost < least {
				best, sides, least, ok = c, s, cost, true
			}
		}
	}
	return best, sides, ok
}

// copied is what it takes to bring the sides into the library's order: bytes, and more
// where neighbours come from apart.
func copied(sides *[3]Side, last bool) (cost int) {
	for i := range sides {
		s := &sides[i]
		if s.Lies(last) {
			continue
		}
		cost += int(s.Value.Shape().Bytes())
		innermost := 1
		for _, a := range s.Axes(last) {
			if a.Count > 1 {
				innermost = a.Stride
			}
		}
		if innermost != 1 {
			cost += int(s.Value.Shape().Bytes())
		}
	}
	return cost
}

// as is a ConvGeneral as a convolution of a kind, if it is one.
func as(kind cudnn.Kind, a *graph.ConvAxes, x, k, out graph.Value, reversed []bool) (c cudnn.Convolution, sides [3]Side, ok bool) {
	c.Kind, c.Type = kind, out.Shape().Type
	part := func(v graph.Value, outer, channels int, spatial []int) Side {
		dims := v.Shape().Dims
		at := func(i int) access.Strided {
			behind := 1
			for _, d := range dims[i+1:] {
				behind *= d
			}
			return access.Strided{Count: dims[i], Stride: behind}
		}
		s := Side{Value: v, outer: []access.Strided{at(outer)}, channels: []access.Strided{at(channels)}}
		for range 2 - len(spatial) { // the library has two axes at least
			s.spatial = append(s.spatial, access.Strided{Count: 1, Stride: 1})
		}
		for _, i := range spatial {
			s.spatial = append(s.spatial, at(i))
		}
		return s
	}
	// backwards has a side begin at the end of a spatial axis.
	backwards := func(s *Side, i int) {
		s.First += (s.spatial[i].Count - 1) * s.spatial[i].Stride
		s.spatial[i].Stride = -s.spatial[i].Stride
	}
	filter := func(outer, channels int) Side {
		s := part(k, outer, channels, a.KernelSpatial)
		for i, axis := range a.KernelSpatial {
			if reversed[axis] {
				backwards(&s, len(s.spatial)-len(a.KernelSpatial)+i)
			}
		}
		return s
	}
	// As many numbers as there are spatial axes of the library.
	list := func(numbers []int, value int) []int {
		return append(slices.Repeat([]int{value}, max(2-len(numbers), 0)), numbers...)
	}
	strides, dilation, kernelDilation, low := list(a.Strides, 1), list(a.Dilation, 1), list(a.KernelDilation, 1), list(a.Low, 0)
	is := func(numbers []int, value int) bool {
		return !slices.ContainsFunc(numbers, func(x int) bool { return x != value })
	}
	total := func(v graph.Value, axes []int) int {
		n := 1
		for _, i := range axes {
			n *= v.Shape().Dims[i]
		}
		return n
	}
	// A kernel larger than the result is the gradient of one.
	wide := total(k, a.KernelSpatial) > total(out, a.ResultSpatial) && a.ChannelGroups == 1 && is(dilation, 1)
	switch kind {
	case cudnn.BackwardFilter:
		if !is(dilation, 1) || a.ChannelGroups > 1 || !wide && a.BatchGroups == 1 || slices.Contains(reversed, true) {
			return c, sides, false
		}
		sides = [3]Side{
			part(x, a.ImageChannels, a.ImageBatch, a.ImageSpatial),
			part(out, a.ResultChannels, a.ResultBatch, a.ResultSpatial),
			part(k, a.KernelInput, a.KernelOutput, a.KernelSpatial),
		}
		c.Strides, c.Dilation, c.Low = kernelDilation, strides, low
	case cudnn.Forward:
		if !is(dilation, 1) || a.BatchGroups > 1 || wide {
			return c, sides, false
		}
		sides = [3]Side{
			part(x, a.ImageBatch, a.ImageChannels, a.ImageSpatial),
			filter(a.KernelOutput, a.KernelInput),
			part(out, a.ResultBatch, a.ResultChannels, a.ResultSpatial),
		}
		c.Strides, c.Dilation, c.Low = strides, kernelDilation, low
	default:
		if !is(strides, 1) || a.BatchGroups > 1 || wide || slices.Min(low) < 0 {
			return c, sides, false
		}
		f := filter(a.KernelInput, a.KernelOutput)
		made := f.channels[0] // of the gradient: the image's, of all groups
		f.channels = []access.Strided{{Count: made.Count / a.ChannelGroups, Stride: made.Stride}}
		f.outer = append([]access.Strided{{Count: a.ChannelGroups, Stride: made.Count / a.ChannelGroups * made.Stride}}, f.outer...)
		c.Low = make([]int, len(low))
		for i, s := range f.spatial {
			backwards(&f, i)
			c.Low[i] = (s.Count-1)*kernelDilation[i] - low[i]
		}
		sides = [3]Side{
			part(out, a.ResultBatch, a.ResultChannels, a.ResultSpatial),
			f,
			part(x, a.ImageBatch, a.ImageChannels, a.ImageSpatial),
		}
		c.Strides, c.Dilation = dilation, kernelDilation
	}
	c.Image, c.Filter, c.Result = sides[Image].dims(), sides[Filter].dims(), sides[Result].dims()
	for i, s := range c.Strides {
		// The last elements may belong to no result.
		least := (c.Result[2+i]-1)*s + (c.Filter[2+i]-1)*c.Dilation[i] + 1 - c.Image[2+i] - c.Low[i]
		most := least + s - 1
		high := c.Low[i]
		if high < least || high > most {
			high = max(least, 0)
		}
		c.High = append(c.High, high)
	}
	return c, sides, c.Check() == nil
}
