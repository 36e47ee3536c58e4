package graph

import (
	"slices"

	"github.com/pinion-gpu/pinion/dtype"
)

// DotAxes is how a [DotGeneral] pairs the axes of its operands.
type DotAxes struct {
	Contracted [2][]int    // axes of x and of y, in pairs, over which products are added up
	Batch      [2][]int    // axes of x and of y, in pairs, that the result has once, in front
	Result     dtype.DType // default: that of the operands
}

// DotGeneral adds products of x and y, added up over pairs of axes. The result has the
// batch axes, then those of x that are left, then those of y. Numbers of 16 bits are
// added up in float32 and rounded once; integers in the result's type.
func (g *Graph) DotGeneral(x, y Value, a DotAxes) (Value, error) {
	in := []Value{x, y}
	if err := g.check(DotGeneral, in...); err != nil {
		return Value{}, err
	}
	sx, sy := x.Shape(), y.Shape()
	if sx.Type != sy.Type {
		return Value{}, bad(DotGeneral, in, "the types differ")
	}
	if a.Result == 0 {
		a.Result = sx.Type
	}
	if a.Result.IsFloat() != sx.Type.IsFloat() || a.Result == dtype.Bool || !a.Result.Valid() {
		return Value{}, bad(DotGeneral, in, "the result cannot be %v", a.Result)
	}
	for i, s := range []Shape{sx, sy} {
		if !distinct(append(slices.Clone(a.Contracted[i]), a.Batch[i]...), s.Rank()) {
			return Value{}, bad(DotGeneral, in, "contracted %v and batch %v are not different axes of operand %d", a.Contracted[i], a.Batch[i], i)
		}
	}
	out := Shape{Type: a.Result}
	for _, pair := range [][2][]int{a.Batch, a.Contracted} {
		if len(pair[0]) != len(pair[1]) {
			return Value{}, bad(DotGeneral, in, "%v and %v are not pairs", pair[0], pair[1])
		}
		for i := range pair[0] {
			if sx.Dims[pair[0][i]] != sy.Dims[pair[1][i]] {
				return Value{}, bad(DotGeneral, in, "axes %d and %d have different lengths", pair[0][i], pair[1][i])
			}
		}
	}
	for _, axis := range a.Batch[0] {
		out.Dims = append(out.Dims, sx.Dims[axis])
	}
	for i, s := range []Shape{sx, sy} {
		for axis, d := range s.Dims {
			if !slices.Contains(a.Contracted[i], axis) && !slices.Contains(a.Batch[i], axis) {
				out.Dims = append(out.Dims, d)
			}
		}
		a.Contracted[i], a.Batch[i] = slices.Clone(a.Contracted[i]), slices.Clone(a.Batch[i])
	}
	return g.checked(DotGeneral, &a, out, in...)
}

// ConvAxes is how a [ConvGeneral] reads its operands. The spatial axes of image, kernel
// and result are pairwise the same; the other lists have a number for each, or are nil
// for the default.
type ConvAxes struct {
	ImageBatch, ImageChannels   int
	ImageSpatial                []int
	KernelInput, KernelOutput   int // axes of the image's channels, and of the result's
	KernelSpatial               []int
	ResultBatch, ResultChannels int
	ResultSpatial               []int

	Strides        []int // default: 1
	Low, High      []int // zeros before and behind the image. Default: 0
	Dilation       []int // the image's elements are that far apart. Default: 1
	KernelDilation []int // the kernel's elements are that far apart. Default: 1

	ChannelGroups int // the channels are that many groups, each with kernels of its own. Default: 1
	BatchGroups   int // the batch is that many groups, each with kernels of its own. Default: 1
}

// ConvGeneral adds a convolution (a correlation, as usual: the kernel is not reversed).
// With groups, the kernel's output channels are those of all groups, one behind the
// other. Numbers of 16 bits are added up in float32.
func (g *Graph) ConvGeneral(image, kernel Value, a ConvAxes) (Value, error) {
	in := []Value{image, kernel}
	if err := g.check(ConvGeneral, in...); err != nil {
		return Value{}, err
	}
	x, k := image.Shape(), kernel.Shape()
	if x.Type != k.Type || x.Rank() < 2 || x.Rank() != k.Rank() {
		return Value{}, bad(ConvGeneral, in, "types or ranks differ, or there are fewer than two axes")
	}
	rank, spatial := x.Rank(), x.Rank()-2
	for _, axes := range [][]int{
		append([]int{a.ImageBatch, a.ImageChannels}, a.ImageSpatial...),
		append([]int{a.KernelInput, a.KernelOutput}, a.KernelSpatial...),
		append([]int{a.ResultBatch, a.ResultChannels}, a.ResultSpatial...),
	} {
		if len(axes) != rank || !distinct(axes, rank) {
			return Value{}, bad(ConvGeneral, in, "%v does not name each axis once", axes)
		}
	}
	orElse := func(list *[]int, value int) {
		if *list == nil {
			*list = repeat(value, spatial)
		}
		*list = slices.Clone(*list)
	}
	orElse(&a.Strides, 1)
	orElse(&a.Low, 0)
	orElse(&a.High, 0)
	orElse(&a.Dilation, 1)
	orElse(&a.KernelDilation, 1)
	for _, list := range [][]int{a.Strides, a.Low, a.High, a.Dilation, a.KernelDilation} {
		if len(list) != spatial {
			return Value{}, bad(ConvGeneral, in, "%v is not one number for each spatial axis", list)
		}
	}
	a.ImageSpatial, a.KernelSpatial, a.ResultSpatial = slices.Clone(a.ImageSpatial), slices.Clone(a.KernelSpatial), slices.Clone(a.ResultSpatial)
	a.ChannelGroups, a.BatchGroups = max(a.ChannelGroups, 1), max(a.BatchGroups, 1)
	batch, channels, made := x.Dims[a.ImageBatch], x.Dims[a.ImageChannels], k.Dims[a.KernelOutput]
	switch {
	case a.ChannelGroups > 1 && a.BatchGroups > 1:
		return Value{}, bad(ConvGeneral, in, "%d groups of channels and %d of the batch: one of them has to be 1", a.ChannelGroups, a.BatchGroups)
	case channels != k.Dims[a.KernelInput]*a.ChannelGroups || made%a.ChannelGroups != 0:
		return Value{}, bad(ConvGeneral, in, "%d channels in %d groups, of kernels that take %d and make %d", channels, a.ChannelGroups, k.Dims[a.KernelInput], made)
	case batch%a.BatchGroups != 0 || made%a.BatchGroups != 0:
		return Value{}, bad(ConvGeneral, in, "a batch of %d in %d groups, of kernels that make %d channels", batch, a.BatchGroups, made)
	}
	out := Shape{x.Type, make([]int, rank)}
	out.Dims[a.ResultBatch], out.Dims[a.ResultChannels] = batch/a.BatchGroups, made
	for i := range spatial {
		d, w := x.Dims[a.ImageSpatial[i]], k.Dims[a.KernelSpatial[i]]
		n, ok := windowsAlong(d, w, a.Strides[i], a.Low[i], a.High[i], a.Dilation[i], a.KernelDilation[i])
		if !ok {
			return Value{}, bad(ConvGeneral, in, "no kernel of %d, stride %d, dilation %d fits axis %d of %d elements with %d zeros before, %d behind, and dilation %d",
				w, a.Strides[i], a.KernelDilation[i], i, d, a.Low[i], a.High[i], a.Dilation[i])
		}
		out.Dims[a.ResultSpatial[i]] = n
	}
	return g.checked(ConvGeneral, &a, out, in...)
}
