package cudaexec

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/access"
	"github.com/pinion-gpu/pinion/step/internal/cudac"
	"github.com/pinion-gpu/pinion/step/internal/cudnn"
)

// strided is how many elements lie along an axis, and how far one is from the next, in
// elements; backwards if that is negative.
type strided struct{ count, stride int }

// side is one of the three sides of a library's convolution, by way of a value in memory:
// its axes, from the first element on.
type side struct {
	value           graph.Value
	first           int
	outer, channels []strided // batch, or the channels that a filter makes
	spatial         []strided
}

// axes are those of a side in the order that the library wants in memory.
func (s *side) axes(channelsLast bool) []strided {
	if channelsLast {
		return slices.Concat(s.outer, s.spatial, s.channels)
	}
	return slices.Concat(s.outer, s.channels, s.spatial)
}

// lies says whether the side's value lies in memory as the library wants it.
func (s *side) lies(channelsLast bool) bool {
	n := 1
	for _, a := range slices.Backward(s.axes(channelsLast)) {
		if a.count > 1 && a.stride != n {
			return false
		}
		n *= a.count
	}
	return s.first == 0
}

func (s *side) dims() []int {
	dims := []int{1, 1}
	for _, a := range s.outer {
		dims[0] *= a.count
	}
	for _, a := range s.channels {
		dims[1] *= a.count
	}
	for _, a := range s.spatial {
		dims = append(dims, a.count)
	}
	return dims
}

// sides are image, filter and result of a library's convolution.
const (
	imageSide = iota
	filterSide
	resultSide
)

// convolutionOf is a ConvGeneral as the library has it: forward, or one of the gradients,
// which are convolutions with other axes, dilations, and a filter that is reversed. Where
// there is more than one way, least is copied.
func convolutionOf(u *access.Views, n *graph.Node) (best cudnn.Convolution, sides [3]side, ok bool) {
	x, out := n.Inputs[0], n.Value(0)
	k, reversed := u.Filter(n)
	t := out.Shape().Type
	if t != dtype.F32 && t != dtype.F16 && t != dtype.BF16 || out.Shape().Size() == 0 || x.Shape().Size() == 0 || k.Shape().Size() == 0 {
		return best, sides, false
	}
	least := 0
	for _, kind := range []cudnn.Kind{cudnn.Forward, cudnn.BackwardData, cudnn.BackwardFilter} {
		c, s, fits := convolutionAs(kind, n.Attr.(*graph.ConvAxes), x, k, out, reversed)
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
func copied(sides *[3]side, last bool) (cost int) {
	for i := range sides {
		s := &sides[i]
		if s.lies(last) {
			continue
		}
		cost += int(s.value.Shape().Bytes())
		innermost := 1
		for _, a := range s.axes(last) {
			if a.count > 1 {
				innermost = a.stride
			}
		}
		if innermost != 1 {
			cost += int(s.value.Shape().Bytes())
		}
	}
	return cost
}

// convolutionAs is a ConvGeneral as a convolution of a kind, if it is one.
func convolutionAs(kind cudnn.Kind, a *graph.ConvAxes, x, k, out graph.Value, reversed []bool) (c cudnn.Convolution, sides [3]side, ok bool) {
	c.Kind, c.Type = kind, out.Shape().Type
	part := func(v graph.Value, outer, channels int, spatial []int) side {
		dims := v.Shape().Dims
		at := func(i int) strided { return strided{dims[i], size(dims[i+1:])} }
		s := side{value: v, outer: []strided{at(outer)}, channels: []strided{at(channels)}}
		for range 2 - len(spatial) { // the library has two axes at least
			s.spatial = append(s.spatial, strided{1, 1})
		}
		for _, i := range spatial {
			s.spatial = append(s.spatial, at(i))
		}
		return s
	}
	// backwards has a side begin at the end of a spatial axis.
	backwards := func(s *side, i int) {
		s.first += (s.spatial[i].count - 1) * s.spatial[i].stride
		s.spatial[i].stride = -s.spatial[i].stride
	}
	filter := func(outer, channels int) side {
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
		sides = [3]side{
			part(x, a.ImageChannels, a.ImageBatch, a.ImageSpatial),
			part(out, a.ResultChannels, a.ResultBatch, a.ResultSpatial),
			part(k, a.KernelInput, a.KernelOutput, a.KernelSpatial),
		}
		c.Strides, c.Dilation, c.Low = kernelDilation, strides, low
	case cudnn.Forward:
		if !is(dilation, 1) || a.BatchGroups > 1 || wide {
			return c, sides, false
		}
		sides = [3]side{
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
		f.channels = []strided{{made.count / a.ChannelGroups, made.stride}}
		f.outer = append([]strided{{a.ChannelGroups, made.count / a.ChannelGroups * made.stride}}, f.outer...)
		c.Low = make([]int, len(low))
		for i, s := range f.spatial {
			backwards(&f, i)
			c.Low[i] = (s.count-1)*kernelDilation[i] - low[i]
		}
		sides = [3]side{
			part(out, a.ResultBatch, a.ResultChannels, a.ResultSpatial),
			f,
			part(x, a.ImageBatch, a.ImageChannels, a.ImageSpatial),
		}
		c.Strides, c.Dilation = dilation, kernelDilation
	}
	c.Image, c.Filter, c.Result = sides[imageSide].dims(), sides[filterSide].dims(), sides[resultSide].dims()
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

// convolved implements [step.Kernel] by the library, and by kernels that bring operands
// and the result into the order that they have in memory.
type convolved struct {
	library       library
	plan          *cudnn.Plan
	before, after *kernels
	at            [3]place // of the sides
	scratch       int64
}

// place is where a side is: one of the task's arrays, or in scratch memory.
type place struct {
	array   array
	scratch bool
	offset  int64
}

// convolution is a ConvGeneral by the library; nil where there is none, or none that
// takes it.
func (e *executor) convolution(t *step.Task) (step.Kernel, error) {
	if len(t.Outputs) != 1 || t.Outputs[0].Node().Op != graph.ConvGeneral {
		return nil, nil
	}
	u := &unit{views: views{Views: access.Views{Given: map[graph.Value]bool{}}}, task: t}
	for _, x := range t.Inputs {
		u.Given[x] = true
	}
	c, sides, ok := convolutionOf(&u.Views, t.Outputs[0].Node())
	if !ok {
		return nil, nil
	}
	l, plan, err := e.planned(c)
	if plan == nil {
		return nil, err
	}
	k := &convolved{library: l, plan: plan}
	before, after := *u, *u
	k.scratch = aligned(k.plan.WorkspaceBytes())
	for i := range sides {
		s := &sides[i]
		output := s.value == t.Outputs[0]
		if !output {
			s.value = u.Base(s.value)
		}
		where := array{number: slices.Index(t.Inputs, s.value)}
		if output {
			where = array{output: true}
		}
		if where.number < 0 {
			return nil, nil
		}
		k.at[i] = place{array: where}
		if s.lies(c.ChannelsLast) {
			continue
		}
		k.at[i] = place{scratch: true, offset: k.scratch}
		l := u.turned(s, c.ChannelsLast, k.scratch, output)
		if output {
			after.launches = append(after.launches, l)
		} else {
			before.launches = append(before.launches, l)
		}
		k.scratch += aligned(s.value.Shape().Bytes())
	}
	if k.before, err = e.kernels(&before); err != nil {
		return nil, err
	}
	if k.after, err = e.kernels(&after); err != nil {
		return nil, err
	}
	return k, nil
}

// turned copies a side's value to scratch memory at offset, in the order that the library
// wants, or back.
func (u *unit) turned(s *side, channelsLast bool, offset int64, back bool) launch {
	axes := s.axes(channelsLast)
	var dims []int
	for _, a := range axes {
		dims = append(dims, a.count)
	}
	k := u.kernel(s.value.Shape().Size())
	k.scope = newScope(nil)
	k.row = k.scope
	k.push()
	at := k.along(index{at: "e"}, dims)
	sum := k.number(s.first)
	for i, a := range axes {
		if a.count > 1 {
			sum += fmt.Sprintf(" + %s * (%s)", at[i], k.number(a.stride))
		}
	}
	t := cudac.Stored(s.value.Shape().Type)
	there := fmt.Sprintf("((%s *)%s)[%s]", t, k.pointer(s.value), k.defineIndex("%s", sum))
	here := fmt.Sprintf("((%s *)((u8 *)%s + %dll))[e]", t, k.scratchPointer(), offset)
	if back {
		here, there = there, here
	}
	k.printf("%s = %s;", here, there)
	l := k.over("turned", s.value.Shape().Size())
	l.scratch = 1 // it is given some, of the convolution's
	return l
}

// Scratch implements [step.Kernel].
func (k *convolved) Scratch() int64 {
	if k.scratch == 0 {
		return 0
	}
	return k.scratch + workspaceAlign
}

// Launch implements [step.Kernel].
func (k *convolved) Launch(s device.Stream, inputs, outputs []device.Ptr, scratch device.Ptr) error {
	scratch = device.Ptr(aligned(int64(scratch)))
	if err := k.before.Launch(s, inputs, outputs, scratch); err != nil {
		return err
	}
	var at [3]device.Ptr
	for i, p := range k.at {
		switch {
		case p.scratch:
			at[i] = scratch.Add(p.offset)
		case p.array.output:
			at[i] = outputs[p.array.number]
		default:
			at[i] = inputs[p.array.number]
		}
	}
	if err := k.library.Run(s, k.plan, scratch, at[imageSide], at[filterSide], at[resultSide]); err != nil {
		return err
	}
	return k.after.Launch(s, inputs, outputs, scratch)
}
