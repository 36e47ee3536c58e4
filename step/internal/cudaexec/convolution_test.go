package cudaexec

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/access"
	"github.com/pinion-gpu/pinion/step/internal/convolving"
	"github.com/pinion-gpu/pinion/step/internal/cudnn"
)

// conv adds a convolution of channels-last images with kernels HWIO, as front ends have
// it, and its gradients, as autodiff makes them.
func (b *builder) conv(d dtype.DType, image, kernel, strides, pads []int) (y, dx, dw graph.Value) {
	b.t.Helper()
	x, w := b.random(d, image...), b.random(d, kernel...)
	a := graph.ConvAxes{ImageBatch: 0, ImageChannels: 3, ImageSpatial: []int{1, 2}, KernelInput: 2, KernelOutput: 3, KernelSpatial: []int{0, 1},
		ResultBatch: 0, ResultChannels: 3, ResultSpatial: []int{1, 2}, Strides: strides, Low: pads, High: pads}
	y = b.ok(b.ConvGeneral(x, w, a))
	dy := b.random(d, y.Shape().Dims...)
	return y, b.dataGradient(dy, w, a, image), b.filterGradient(x, dy, a, kernel)
}

// dataGradient is the gradient of a convolution's image of these dimensions.
func (b *builder) dataGradient(dy, w graph.Value, a graph.ConvAxes, image []int) graph.Value {
	b.t.Helper()
	out, kernel := dy.Shape().Dims, w.Shape().Dims
	g := a
	g.KernelInput, g.KernelOutput = a.KernelOutput, a.KernelInput
	g.Strides, g.Dilation = nil, a.Strides
	g.Low, g.High = nil, nil
	for i, s := range a.KernelSpatial {
		low := kernel[s] - 1 - a.Low[i]
		g.Low = append(g.Low, low)
		g.High = append(g.High, image[1+i]-((out[1+i]-1)*a.Strides[i]+1)-low+kernel[s]-1)
	}
	return b.ok(b.ConvGeneral(dy, b.ok(b.Reverse(w, a.KernelSpatial...)), g))
}

// filterGradient is the gradient of a convolution's kernel of these dimensions.
func (b *builder) filterGradient(x, dy graph.Value, a graph.ConvAxes, kernel []int) graph.Value {
	b.t.Helper()
	image, out := x.Shape().Dims, dy.Shape().Dims
	g := graph.ConvAxes{ImageBatch: a.ImageChannels, ImageChannels: a.ImageBatch, ImageSpatial: a.ImageSpatial,
		KernelInput: a.ResultBatch, KernelOutput: a.ResultChannels, KernelSpatial: a.ResultSpatial,
		ResultBatch: a.KernelInput, ResultChannels: a.KernelOutput, ResultSpatial: a.KernelSpatial,
		KernelDilation: a.Strides, Low: a.Low}
	for i, s := range a.KernelSpatial {
		g.High = append(g.High, kernel[s]-1+(out[1+i]-1)*a.Strides[i]+1-image[1+i]-a.Low[i])
	}
	return b.ok(b.ConvGeneral(x, dy, g))
}

// Convolutions and both gradients go to the library, and are the host's.
func TestLibraryConvolutions(t *testing.T) {
	testkit.OnlyComputes(t)
	e := openLibraryTest(t)
	var all checks
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16, dtype.F16} {
		b := newBuilder(t)
		var outputs []graph.Value
		for _, c := range []struct{ image, kernel, strides, pads []int }{
			{[]int{2, 6, 5, 8}, []int{3, 3, 8, 16}, []int{1, 1}, []int{1, 1}},
			{[]int{2, 7, 6, 8}, []int{3, 3, 8, 8}, []int{2, 2}, []int{1, 1}},
			{[]int{1, 8, 8, 8}, []int{3, 3, 8, 8}, []int{2, 2}, []int{1, 1}},
			{[]int{2, 5, 4, 8}, []int{1, 1, 8, 16}, []int{1, 1}, []int{0, 0}},
			{[]int{2, 6, 4, 8}, []int{1, 1, 8, 16}, []int{2, 2}, []int{0, 0}},
		} {
			y, dx, dw := b.conv(d, c.image, c.kernel, c.strides, c.pads)
			outputs = append(outputs, y, dx, dw)
		}
		direct := &access.Views{Given: map[graph.Value]bool{}}
		for i, v := range outputs {
			c, sides, ok := convolutionOf(direct, v.Node())
			if !ok || !c.ChannelsLast || !sides[convolving.Image].Lies(true) || !sides[convolving.Result].Lies(true) {
				t.Errorf("%v: %+v, %t: images are copied, or the library does not take it", v.Node(), c, ok)
			}
			a := v.Node().Attr.(*graph.ConvAxes)
			unit := slices.Max(a.Strides) == 1 && slices.Max(a.Dilation) == 1
			want := []cudnn.Kind{cudnn.Forward, cudnn.BackwardData, cudnn.BackwardFilter}[i%3]
			if c.Kind != want && !(unit && i%3 < 2 && c.Kind < cudnn.BackwardFilter) { // with unit strides, each is the other
				t.Errorf("%v: %v, want %v", v.Node(), c.Kind, want)
			}
			task := &step.Task{Nodes: []*graph.Node{v.Node()}, Inputs: v.Node().Inputs, Outputs: []graph.Value{v}}
			if k, err := e.Compile(task); err != nil {
				t.Error(err)
			} else if _, ok := k.(*convolved); !ok {
				t.Errorf("%v: the library does not take it: %v", v.Node(), refusal(e, c))
			}
		}
		all.add(d.String(), b.compared(e, 8, outputs...))
	}
	all.run(t)
}

// refusal is why the library does not take a convolution.
func refusal(e *executor, c cudnn.Convolution) error {
	l, err := e.library()
	if err == nil {
		_, err = l.Plan(c)
	}
	return fmt.Errorf("%+v: %w", c, err)
}

// Other axes, groups, dilations, and what the library does not take.
func TestLibraryAxes(t *testing.T) {
	e := openLibraryTest(t)
	b := newBuilder(t)
	d := dtype.F32
	nhwc := graph.ConvAxes{ImageBatch: 0, ImageChannels: 3, ImageSpatial: []int{1, 2}, KernelInput: 2, KernelOutput: 3, KernelSpatial: []int{0, 1}, ResultBatch: 0, ResultChannels: 3, ResultSpatial: []int{1, 2}}
	var outputs []graph.Value
	conv := func(x, k graph.Value, takes bool, change func(a *graph.ConvAxes)) {
		t.Helper()
		a := nhwc
		change(&a)
		v := b.ok(b.ConvGeneral(x, k, a))
		if _, _, ok := convolutionOf(new(access.Views), v.Node()); ok != takes {
			t.Errorf("%v: taken: %t", v.Node(), ok)
		}
		outputs = append(outputs, v)
	}
	x := b.random(d, 4, 7, 6, 4)
	conv(x, b.random(d, 3, 2, 4, 6), true, func(a *graph.ConvAxes) { a.Low, a.High = []int{1, 0}, []int{1, 1} })
	conv(x, b.random(d, 3, 2, 4, 6), true, func(a *graph.ConvAxes) { a.Strides, a.KernelDilation = []int{2, 1}, []int{2, 1} })
	conv(x, b.random(d, 3, 3, 4, 6), true, func(a *graph.ConvAxes) { a.Dilation = []int{2, 3} })
	conv(x, b.random(d, 3, 3, 4, 6), true, func(a *graph.ConvAxes) {
		a.Dilation, a.KernelDilation, a.Low, a.High = []int{2, 3}, []int{1, 2}, []int{2, 1}, []int{1, 3}
	})
	conv(x, b.random(d, 2, 2, 2, 6), true, func(a *graph.ConvAxes) { a.ChannelGroups = 2 })
	conv(x, b.random(d, 2, 3, 2, 6), true, func(a *graph.ConvAxes) { a.ChannelGroups, a.Dilation = 2, []int{2, 2} })
	conv(x, b.random(d, 2, 2, 4, 6), true, func(a *graph.ConvAxes) { a.BatchGroups = 2 })
	conv(x, b.random(d, 2, 2, 4, 6), false, func(a *graph.ConvAxes) { a.Strides, a.Dilation = []int{2, 2}, []int{2, 2} })
	conv(x, b.random(d, 2, 2, 4, 6), false, func(a *graph.ConvAxes) { a.Low = []int{-1, 0} })
	nchw := func(a *graph.ConvAxes) {
		a.ImageChannels, a.ImageSpatial = 1, []int{2, 3}
		a.KernelInput, a.KernelOutput, a.KernelSpatial = 1, 0, []int{2, 3}
		a.ResultChannels, a.ResultSpatial = 1, []int{2, 3}
	}
	conv(b.random(d, 2, 4, 7, 6), b.random(d, 5, 4, 3, 1), true, nchw)
	if c, sides, _ := convolutionOf(new(access.Views), outputs[len(outputs)-1].Node()); c.ChannelsLast || !sides[0].Lies(false) || !sides[1].Lies(false) || !sides[2].Lies(false) {
		t.Errorf("%+v: copied", c)
	}
	conv(b.random(d, 2, 4, 3, 6), b.random(d, 3, 5, 6, 1), true, func(a *graph.ConvAxes) { // of mixed orders
		a.KernelInput, a.KernelOutput, a.KernelSpatial = 2, 1, []int{0, 3}
		a.ResultChannels, a.ResultSpatial = 1, []int{2, 3}
	})
	one := graph.ConvAxes{ImageBatch: 0, ImageChannels: 2, ImageSpatial: []int{1}, KernelInput: 1, KernelOutput: 2, KernelSpatial: []int{0}, ResultBatch: 0, ResultChannels: 2, ResultSpatial: []int{1}}
	outputs = append(outputs, b.ok(b.ConvGeneral(b.random(d, 2, 9, 4), b.random(d, 3, 4, 5), one)))
	b.compare(e, 8, outputs...)
}
