package models

import (
	"fmt"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
)

// ResNet describes a training step of a residual network of bottlenecks (He et al., 2015,
// with strides in the 3 x 3 convolutions, as PyTorch has it): images of Size x Size pixels
// and three colours, and the mean cross-entropy of their classes.
type ResNet struct {
	Blocks  []int // of each stage; default: 3, 4, 6, 3, which are 50 layers
	Width   int   // channels of the first stage's 3 x 3 convolutions; default: 64
	Batch   int
	Size    int // default: 224
	Classes int // default: 1000

	Type         dtype.DType // as of [GPT]
	Optimizer    Optimizer
	LearningRate float64     // default: 1e-3
	Ranks        bool        // as of [GPT]
	Average      dtype.DType // as of [GPT]
}

// Model makes the graph. Parameters are the images, f32[Batch,Size,Size,3], their
// classes, i32[Batch], and the weights, with the running means and variances of
// normalisations. Results are as those of [GPT.Model].
func (c ResNet) Model() (*Model, error) {
	if c.Blocks == nil {
		c.Blocks = []int{3, 4, 6, 3}
	}
	for n, orElse := range map[*int]int{&c.Width: 64, &c.Size: 224, &c.Classes: 1000} {
		if *n == 0 {
			*n = orElse
		}
	}
	if c.Batch < 1 || c.Width < 1 || c.Size < 1 || c.Classes < 1 || slices.Min(append([]int{1}, c.Blocks...)) < 1 {
		return nil, fmt.Errorf("models: %w: sizes have to be above 0: %+v", errs.ErrArgument, c)
	}
	layers := 2
	for _, n := range c.Blocks {
		layers += 3 * n
	}
	return build(fmt.Sprintf("ResNet-%d", layers), c.Type, func(b *builder) {
		images := b.batch("images", graph.MakeShape(b.full, c.Batch, c.Size, c.Size, 3), random(1))
		classes := b.batch("classes", graph.MakeShape(dtype.I32, c.Batch), integers(c.Classes))
		x := b.relu(b.batchNorm("stem", b.convolve("stem", images, c.Width, 7, 2)))
		x = b.maxPool(x)
		for stage, blocks := range c.Blocks {
			width := c.Width << stage
			for i := range blocks {
				stride := 1
				if i == 0 && stage > 0 {
					stride = 2
				}
				x = b.bottleneck(fmt.Sprintf("%d.%d", stage, i), x, width, stride)
			}
		}
		dims := x.Shape().Dims
		x = b.average(x)
		logits := b.linear(x, b.weight("head", random(1/math.Sqrt(float64(dims[3]))), dims[3], c.Classes))
		logits = b.bias(logits, b.weight("offset", zeros, c.Classes))
		b.finish(b.crossEntropy(logits, classes), c.Optimizer, c.LearningRate, means(c.Ranks, c.Average))
	})
}

// bottleneck is a residual of three convolutions, the outer of 1 x 1.
func (b *builder) bottleneck(name string, x graph.Value, width, stride int) graph.Value {
	y := b.relu(b.batchNorm(name+".1", b.convolve(name+".1", x, width, 1, 1)))
	y = b.relu(b.batchNorm(name+".2", b.convolve(name+".2", y, width, 3, stride)))
	y = b.batchNorm(name+".3", b.convolve(name+".3", y, 4*width, 1, 1))
	if stride > 1 || x.Shape().Dims[3] != 4*width {
		x = b.batchNorm(name+".0", b.convolve(name+".0", x, 4*width, 1, stride))
	}
	return b.relu(b.plus(x, y))
}

// convolve is a convolution of batch, rows, columns, channels with a weight of made
// channels, rows, columns, channels, as many zeros around as keep the size.
func (b *builder) convolve(name string, x graph.Value, made, size, stride int) graph.Value {
	dims, pad := x.Shape().Dims, (size-1)/2
	taken := dims[3]
	w := b.weight(name+": weight", random(math.Sqrt(2/float64(size*size*made))), made, size, size, taken)
	both := func(n int) []int { return []int{n, n} }
	y := b.ok(b.g.ConvGeneral(b.thin(x), b.thin(w), graph.ConvAxes{
		ImageChannels: 3, ImageSpatial: []int{1, 2}, KernelInput: 3, KernelSpatial: []int{1, 2}, ResultChannels: 3, ResultSpatial: []int{1, 2},
		Strides: both(stride), Low: both(pad), High: both(pad),
	}))
	out := y.Shape().Dims
	b.backward(func() {
		g := b.thin(b.gradient(y))
		// Batch and channels change places: products are added up over images. What no
		// window reached is left out.
		image, high := b.thin(x), make([]int, 2)
		limits := slices.Clone(dims)
		for i := range high {
			high[i] = size + (out[1+i]-1)*stride - dims[1+i] - pad
			if high[i] < 0 {
				limits[1+i], high[i] = dims[1+i]+high[i], 0
			}
		}
		if !slices.Equal(limits, dims) {
			image = b.ok(b.g.Slice(image, make([]int, 4), limits, nil))
		}
		b.give(w, b.ok(b.g.ConvGeneral(image, g, graph.ConvAxes{
			ImageBatch: 3, ImageSpatial: []int{1, 2}, KernelOutput: 3, KernelSpatial: []int{1, 2}, ResultBatch: 3, ResultSpatial: []int{1, 2},
			KernelDilation: both(stride), Low: both(pad), High: high,
		})))
		low := size - 1 - pad
		for i := range high {
			high[i] = dims[1+i] + size - 2 - (out[1+i]-1)*stride - low
		}
		b.give(x, b.ok(b.g.ConvGeneral(g, b.ok(b.g.Reverse(b.thin(w), 1, 2)), graph.ConvAxes{
			ImageChannels: 3, ImageSpatial: []int{1, 2}, KernelOutput: 3, KernelSpatial: []int{1, 2}, ResultChannels: 3, ResultSpatial: []int{1, 2},
			Dilation: both(stride), Low: both(low), High: high,
		})))
	})
	return y
}

// batchNorm normalises channels, the last axis, by the mean and the variance of a batch,
// and follows both with a momentum of 0.1.
func (b *builder) batchNorm(name string, x graph.Value) graph.Value {
	dims := x.Shape().Dims
	channels := dims[len(dims)-1]
	scale, offset := b.weight(name+": scale", ones, channels), b.weight(name+": offset", zeros, channels)
	wide, mean, variance, err := b.g.BatchNormTraining(b.wide(x), scale, offset, normEpsilon, len(dims)-1)
	b.must(err)
	y := b.as(x.Shape().Type, wide)
	n := float64(x.Shape().Size() / channels)
	for _, running := range []struct {
		name  string
		how   initial
		value graph.Value
	}{{"mean", zeros, mean}, {"variance", ones, b.times(variance, n/max(n-1, 1))}} {
		old := b.input(name+": "+running.name, graph.MakeShape(b.full, channels), running.how)
		b.later = append(b.later, func() {
			b.replace(old, b.add(b.times(old, 0.9), b.times(running.value, 0.1)))
		})
	}
	b.backward(func() {
		s := b.saved(x, mean, variance)
		dx, dscale, doffset, err := b.g.BatchNormGradient(b.wide(s[0]), scale, s[1], s[2], b.wide(b.gradient(y)), normEpsilon, len(dims)-1)
		b.must(err)
		b.give(x, b.as(x.Shape().Type, dx))
		b.give(scale, dscale)
		b.give(offset, doffset)
	})
	return y
}

// maxPool takes the largest of 3 x 3, at every other place.
func (b *builder) maxPool(x graph.Value) graph.Value {
	w := graph.Windows{Dims: []int{1, 3, 3, 1}, Strides: []int{1, 2, 2, 1}, Low: []int{0, 1, 1, 0}, High: []int{0, 1, 1, 0}}
	forward := w
	forward.Reduction = graph.ReduceMax
	y := b.ok(b.g.ReduceWindow(x, forward))
	b.backward(func() {
		b.give(x, b.ok(b.g.SelectAndScatter(graph.SelectAndScatterMax, x, b.gradient(y), w)))
	})
	return y
}

// average is the mean over rows and columns.
func (b *builder) average(x graph.Value) graph.Value {
	dims := x.Shape().Dims
	over := 1 / float64(dims[1]*dims[2])
	y := b.as(x.Shape().Type, b.times(b.sum(b.wide(x), 1, 2), over))
	b.backward(func() {
		g := b.times(b.wide(b.gradient(y)), over)
		b.give(x, b.as(x.Shape().Type, b.ok(b.g.BroadcastInDim(g, dims, []int{0, 3}))))
	})
	return y
}
