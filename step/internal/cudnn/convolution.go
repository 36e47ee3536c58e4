package cudnn

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// Kind says which of the three sides of a convolution is computed.
type Kind uint8

// Kinds of convolutions.
const (
	Forward        Kind = iota // the result, of image and filter
	BackwardData               // the image's gradient, of the filter and the result's gradient
	BackwardFilter             // the filter's gradient, of the image and the result's gradient
)

func (k Kind) String() string { return [...]string{"forward", "data gradient", "filter gradient"}[k] }

// Convolution is what is computed: with the image at (n, c, x), the filter at (k, c, r)
// and the result at (n, k, y), each product of a result and a filter's element belongs to
// the image's element at
//
//	x = y * Strides + r * Dilation - Low
//
// along each spatial axis, where there is one. A filter has channels of one group only:
// there are as many groups as it needs for the image's.
//
// The operands of [Library.Run] are image, filter and result, one of which is written.
type Convolution struct {
	Kind Kind
	Type dtype.DType // of all three: float32, float16 or bfloat16. They are added up in float32

	// Dimensions: batch (of the filter: channels that it makes), channels, and two or
	// three spatial axes.
	Image, Filter, Result []int

	// ChannelsLast says that channels lie side by side in memory, in all three, and that
	// the spatial axes come before them. Otherwise memory has the order of dimensions.
	ChannelsLast bool

	Strides, Low, High, Dilation []int // for each spatial axis. Low and High: zeros before and behind the image
}

// Groups is how many groups the channels are.
func (c Convolution) Groups() int { return c.Image[1] / c.Filter[1] }

// Check implements [Problem].
func (c Convolution) Check() error {
	spatial := len(c.Image) - 2
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", device.ErrArgument, fmt.Sprintf(format, args...))
	}
	if c.Kind > BackwardFilter || c.Type != dtype.F32 && c.Type != dtype.F16 && c.Type != dtype.BF16 {
		return bad("kind %d of %v", c.Kind, c.Type)
	}
	if spatial < 2 || spatial > 3 || len(c.Filter) != len(c.Image) || len(c.Result) != len(c.Image) {
		return bad("image %v, filter %v and result %v have not two or three spatial axes", c.Image, c.Filter, c.Result)
	}
	for _, dims := range [][]int{c.Image, c.Filter, c.Result} {
		if slices.Min(dims) < 1 {
			return bad("dimensions %v", dims)
		}
	}
	if c.Image[0] != c.Result[0] || c.Filter[0] != c.Result[1] || c.Image[1]%c.Filter[1] != 0 || c.Filter[0]%c.Groups() != 0 {
		return bad("image %v, filter %v and result %v do not go together", c.Image, c.Filter, c.Result)
	}
	for _, list := range [][]int{c.Strides, c.Low, c.High, c.Dilation} {
		if len(list) != spatial {
			return bad("%v is not a number for each of %d spatial axes", list, spatial)
		}
	}
	for i := range spatial {
		reach := (c.Filter[2+i]-1)*c.Dilation[i] + 1
		padded := c.Image[2+i] + c.Low[i] + c.High[i]
		if c.Strides[i] < 1 || c.Dilation[i] < 1 || c.Low[i] < 0 || c.High[i] < 0 || padded < reach || (padded-reach)/c.Strides[i]+1 != c.Result[2+i] {
			return bad("axis %d: a filter of %d, stride %d, dilation %d makes of %d elements and %d+%d zeros not %d",
				2+i, c.Filter[2+i], c.Strides[i], c.Dilation[i], c.Image[2+i], c.Low[i], c.High[i], c.Result[2+i])
		}
	}
	return nil
}

// strides of dimensions, in elements.
func strides(dims []int, channelsLast bool) []int64 {
	order := make([]int, len(dims)) // axes, from the outermost
	for i := range order {
		order[i] = i
	}
	if channelsLast {
		order = append(slices.Delete(order, 1, 2), 1)
	}
	list := make([]int64, len(dims))
	n := int64(1)
	for _, axis := range slices.Backward(order) {
		list[axis] = n
		n *= int64(dims[axis])
	}
	return list
}

func size(dims []int) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= int64(d)
	}
	return n
}

// Unique numbers of the tensors.
const (
	imageID  = 'x'
	filterID = 'w'
	resultID = 'y'
)

// sides are how the library names the parts of a kind.
type sides struct {
	desc                       uintptr
	conv, x, w, y, alpha, beta uintptr
}

var sidesOf = [...]sides{
	Forward:        {forwardDesc, forwardConv, forwardX, forwardW, forwardY, forwardAlpha, forwardBeta},
	BackwardData:   {backwardDataDesc, dataConv, dataX, dataW, dataY, dataAlpha, dataBeta},
	BackwardFilter: {backwardFilterDesc, filterConv, filterX, filterW, filterY, filterAlpha, filterBeta},
}

// graph implements [Problem], of one operation.
func (c Convolution) graph(b *builder, handle uintptr) descriptor {
	conv := b.create(convolutionDesc)
	b.setEnum(conv, convolutionComputeType, typeDataType, dataFloat)
	b.setEnum(conv, convolutionMode, typeConvolutionMode, crossCorrelation)
	b.setInts(conv, convolutionSpatial, int64(len(c.Strides)))
	b.setInts(conv, convolutionPre, int64s(c.Low)...)
	b.setInts(conv, convolutionPost, int64s(c.High)...)
	b.setInts(conv, convolutionDilations, int64s(c.Dilation)...)
	b.setInts(conv, convolutionStrides, int64s(c.Strides)...)
	b.finalize(conv, convolutionDesc)
	side := func(id int64, dims []int) descriptor {
		return b.tensor(tensor{id: id, kind: dataType(c.Type), dims: int64s(dims), strides: strides(dims, c.ChannelsLast)})
	}
	o := sidesOf[c.Kind]
	x, w, y := side(imageID, c.Image), side(filterID, c.Filter), side(resultID, c.Result)
	op := b.create(o.desc)
	b.setDescriptors(op, o.conv, conv)
	b.setDescriptors(op, o.x, x)
	b.setDescriptors(op, o.w, w)
	b.setDescriptors(op, o.y, y)
	b.setFloat(op, o.alpha, 1)
	b.setFloat(op, o.beta, 0)
	return b.graph(handle, b.finalize(op, o.desc))
}

// suits implements [Problem]: no engine rounds float32 to fewer bits, or computes by other
// methods than products and sums.
func (c Convolution) suits(notes []int32) bool {
	for _, note := range notes {
		switch note {
		case noteNondeterministic, noteReducedReduction, noteFFT, noteWinograd:
			return false
		case noteTensorCore, noteDownConvert: // float32 as TF32
			if c.Type == dtype.F32 {
				return false
			}
		}
	}
	return true
}

func (c Convolution) memory(int) memory {
	width := int64(c.Type.Size())
	return memory{operands: []operand{{imageID, "image", width * size(c.Image)}, {filterID, "filter", width * size(c.Filter)}, {resultID, "result", width * size(c.Result)}}}
}

func (c Convolution) what() string                { return fmt.Sprintf("%v of %v", c.Kind, c.Type) }
func (c Convolution) supported(int, [2]int) error { return nil }
func (c Convolution) part() (Problem, int)        { return nil, 1 }
