package models

import (
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors/images"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/layers/norm"
	"github.com/gomlx/gomlx/ml/model"
)

// blocks are how many blocks each stage has, by the number of layers. 18, 34 and 50 are
// those of He et al., "Deep Residual Learning for Image Recognition", CVPR 2016; 10 is
// the same with one block in each stage.
var blocks = map[int]struct {
	counts     []int
	bottleneck bool
}{
	10: {[]int{1, 1, 1, 1}, false},
	18: {[]int{2, 2, 2, 2}, false},
	34: {[]int{3, 4, 6, 3}, false},
	50: {[]int{3, 4, 6, 3}, true},
}

// resnet takes pictures of shape [batch, 3, height, width], as a loader makes them.
func (s Spec) resnet(scope *model.Scope, x *graph.Node) (logits *graph.Node) {
	kind := blocks[s.Layers]
	x = convolution(scope.In("stem"), x, s.Width, 7, 2)
	x = activation.Relu(x)
	x = graph.MaxPool(x).ChannelsAxis(images.ChannelsFirst).Window(3).Strides(2).PadSame().Done()
	for stage, count := range kind.counts {
		channels := s.Width << stage
		for i := range count {
			stride := 1
			if i == 0 && stage > 0 {
				stride = 2
			}
			block := scope.In("stage_%d", stage).In("block_%d", i)
			if kind.bottleneck {
				x = bottleneck(block, x, channels, stride)
			} else {
				x = basic(block, x, channels, stride)
			}
		}
	}
	return layers.Dense(scope.In("out"), graph.ReduceMean(x, 2, 3), true, s.Classes)
}

func basic(scope *model.Scope, x *graph.Node, channels, stride int) *graph.Node {
	y := activation.Relu(convolution(scope.In("conv_0"), x, channels, 3, stride))
	y = convolution(scope.In("conv_1"), y, channels, 3, 1)
	return activation.Relu(graph.Add(shortcut(scope, x, channels, stride), y))
}

func bottleneck(scope *model.Scope, x *graph.Node, channels, stride int) *graph.Node {
	y := activation.Relu(convolution(scope.In("conv_0"), x, channels, 1, 1))
	y = activation.Relu(convolution(scope.In("conv_1"), y, channels, 3, stride))
	y = convolution(scope.In("conv_2"), y, 4*channels, 1, 1)
	return activation.Relu(graph.Add(shortcut(scope, x, 4*channels, stride), y))
}

// shortcut is x, in the shape of the block's result.
func shortcut(scope *model.Scope, x *graph.Node, channels, stride int) *graph.Node {
	if x.Shape().Dim(1) == channels && stride == 1 {
		return x
	}
	return convolution(scope.In("shortcut"), x, channels, 1, stride)
}

// convolution is one without a bias, and the normalisation of its result.
func convolution(scope *model.Scope, x *graph.Node, channels, kernel, stride int) *graph.Node {
	x = layers.Convolution(scope, x).ChannelsAxis(images.ChannelsFirst).Channels(channels).KernelSize(kernel).Strides(stride).UseBias(false).PadSame().Done()
	return norm.BatchNorm(scope, x, 1).Done()
}
