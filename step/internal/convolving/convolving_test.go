package convolving_test

import (
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/convolving"
	"github.com/pinion-gpu/pinion/step/internal/cudnn"
)

// A convolution with strides of channels-last images, and its gradients as automatic
// differentiation writes them: each is found, and no image has to be copied. Package
// cudaexec's tests compute what is found.
func TestOf(t *testing.T) {
	g := graph.New("convolutions")
	parameter := func(name string, dims ...int) graph.Value {
		return testkit.Must(g.Parameter(name, graph.MakeShape(dtype.F32, dims...)))(t)
	}
	x, w, dy := parameter("x", 2, 8, 8, 4), parameter("w", 3, 3, 4, 6), parameter("dy", 2, 4, 4, 6)
	forward := graph.ConvAxes{ImageBatch: 0, ImageChannels: 3, ImageSpatial: []int{1, 2}, KernelInput: 2, KernelOutput: 3, KernelSpatial: []int{0, 1},
		ResultBatch: 0, ResultChannels: 3, ResultSpatial: []int{1, 2}, Strides: []int{2, 2}, Low: []int{0, 0}, High: []int{1, 1}}
	data := forward
	data.KernelInput, data.KernelOutput, data.Strides, data.Dilation, data.Low, data.High = 3, 2, nil, []int{2, 2}, []int{2, 2}, []int{1, 1}
	filter := graph.ConvAxes{ImageBatch: 3, ImageChannels: 0, ImageSpatial: []int{1, 2}, KernelInput: 0, KernelOutput: 3, KernelSpatial: []int{1, 2},
		ResultBatch: 2, ResultChannels: 3, ResultSpatial: []int{0, 1}, KernelDilation: []int{2, 2}, Low: []int{0, 0}, High: []int{1, 1}}
	for _, c := range []struct {
		kind     cudnn.Kind
		image, k graph.Value
		axes     graph.ConvAxes
		reversed []bool
	}{
		{cudnn.Forward, x, w, forward, make([]bool, 4)},
		{cudnn.BackwardData, dy, w, data, []bool{true, true, false, false}},
		{cudnn.BackwardFilter, x, dy, filter, make([]bool, 4)},
	} {
		y := testkit.Must(g.ConvGeneral(c.image, c.k, c.axes))(t)
		got, sides, ok := convolving.Of(y.Node(), c.k, c.reversed)
		if !ok || got.Kind != c.kind || !got.ChannelsLast || !slices.Equal(got.Image, []int{2, 4, 8, 8}) || !slices.Equal(got.Filter, []int{6, 4, 3, 3}) || !slices.Equal(got.Result, []int{2, 6, 4, 4}) {
			t.Errorf("%v: %+v, %t", c.kind, got, ok)
		}
		if !sides[convolving.Image].Lies(true) || !sides[convolving.Result].Lies(true) || sides[convolving.Filter].Lies(true) {
			t.Errorf("%v: what is copied: %+v", c.kind, sides)
		}
	}
	// Integers are not the library's.
	n := testkit.Must(g.Parameter("n", graph.MakeShape(dtype.I32, 2, 8, 8, 4)))(t)
	m := testkit.Must(g.Parameter("m", graph.MakeShape(dtype.I32, 3, 3, 4, 6)))(t)
	if _, _, ok := convolving.Of(testkit.Must(g.ConvGeneral(n, m, forward))(t).Node(), m, make([]bool, 4)); ok {
		t.Error("it takes integers")
	}
}
