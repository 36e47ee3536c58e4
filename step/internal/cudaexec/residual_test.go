package cudaexec

import (
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/convolving"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
)

// residual adds a bottleneck block of a ResNet with its identity, forward and backward, as
// a framework's autodiff would: convolutions of type d, normalisations, weights and their
// gradients float32. Images are size x size of so many channels, a quarter of them inside.
// It returns the result and the gradients.
func (b *builder) residual(d dtype.DType, batch, size, channels int) []graph.Value {
	b.t.Helper()
	f32 := dtype.F32
	inner := channels / 4
	cast := func(v graph.Value) graph.Value { return b.ok(b.Convert(v, d)) }
	float := func(v graph.Value) graph.Value { return b.ok(b.Convert(v, f32)) }
	zero := b.ok(b.Fill(0, graph.MakeShape(f32)))
	type layer struct {
		axes                                  graph.ConvAxes
		in, w, made, scale, mean, variance, y graph.Value // y: normalised
		kernel                                []int
	}
	forward := func(in graph.Value, window, from, to int) layer {
		pad := window / 2
		l := layer{in: in, kernel: []int{window, window, from, to}}
		l.axes = graph.ConvAxes{ImageBatch: 0, ImageChannels: 3, ImageSpatial: []int{1, 2}, KernelInput: 2, KernelOutput: 3, KernelSpatial: []int{0, 1},
			ResultBatch: 0, ResultChannels: 3, ResultSpatial: []int{1, 2}, Strides: []int{1, 1}, Low: []int{pad, pad}, High: []int{pad, pad}}
		l.w = cast(b.binary(graph.Mul, b.random(f32, l.kernel...), b.ok(b.Fill(0.05, graph.MakeShape(f32)))))
		l.made = float(b.ok(b.ConvGeneral(in, l.w, l.axes)))
		l.scale = b.random(f32, to)
		var err error
		l.y, l.mean, l.variance, err = b.BatchNormTraining(l.made, l.scale, b.random(f32, to), 1e-5, 3)
		testkit.OK(b.t, err)
		return l
	}
	relu := func(v graph.Value) graph.Value { return b.binary(graph.Max, v, zero) }
	var gradients []graph.Value
	// backward returns the gradient of a layer's operand.
	backward := func(l layer, dy graph.Value) graph.Value {
		dx, dscale, doffset, err := b.BatchNormGradient(l.made, l.scale, l.mean, l.variance, dy, 1e-5, 3)
		testkit.OK(b.t, err)
		g := cast(dx)
		gradients = append(gradients, float(b.filterGradient(l.in, g, l.axes, l.kernel)), dscale, doffset)
		return float(b.dataGradient(g, l.w, l.axes, l.in.Shape().Dims))
	}
	through := func(y, dy graph.Value) graph.Value { // a relu
		return b.ok(b.Where(b.binary(graph.Greater, y, zero), dy, b.ok(b.BroadcastInDim(zero, dy.Shape().Dims, nil))))
	}
	x := b.random(d, batch, size, size, channels)
	l1 := forward(x, 1, channels, inner)
	l2 := forward(cast(relu(l1.y)), 3, inner, inner)
	l3 := forward(cast(relu(l2.y)), 1, inner, channels)
	sum := b.binary(graph.Add, l3.y, float(x))
	out := cast(relu(sum))
	dsum := through(sum, float(b.random(d, batch, size, size, channels)))
	d2 := through(l2.y, backward(l3, dsum))
	d1 := through(l1.y, backward(l2, d2))
	dx := cast(b.binary(graph.Add, backward(l1, d1), dsum))
	return append([]graph.Value{out, dx}, gradients...)
}

// A block is what the host makes of it. Nothing but filters is brought into another order
// for the library.
func TestResidual(t *testing.T) {
	e := openLibraryTest(t)
	b := newBuilder(t)
	outputs := b.residual(dtype.F32, 2, 5, 16)
	b.compare(e, 1000, outputs...)
	tasks, err := Fuse(b.Graph)
	testkit.OK(t, err)
	filters := 0
	for _, task := range tasks {
		if op := task.Nodes[len(task.Nodes)-1].Op; op == graph.Transpose || op == graph.Reverse {
			t.Errorf("%v", task.Nodes)
		} else if op != graph.ConvGeneral {
			continue
		}
		k, ok := testkit.Must(e.Compile(task))(t).(*convolved)
		if !ok {
			t.Errorf("%v: the library does not take it", task.Nodes)
			continue
		}
		if k.at[convolving.Image].scratch || k.at[convolving.Result].scratch {
			t.Errorf("%v: images are copied", task.Nodes)
		}
		if k.at[convolving.Filter].scratch {
			filters++
		}
	}
	if filters != 5 { // those of 3x3, and filter gradients
		t.Errorf("%d of 9 filters are copied, want 5", filters)
	}
}

// Forward and backward of a bottleneck block as large as those of the first stage of a
// ResNet-50, as peers/torch_residual.py has it; a small one where kernels do not run on a
// GPU.
func BenchmarkResidual(b *testing.B) {
	e := openLibraryTest(b)
	batch, size, channels := 64, 56, 256
	if _, small := e.launcher.(*shim); small {
		batch, size, channels = 2, 5, 16
	}
	g := newBuilder(b)
	testkit.OK(b, g.SetOutputs(g.residual(dtype.BF16, batch, size, channels)...))
	x := testkit.Must(step.Compile(g.Graph, e, step.Options{}))(b) // what is computed twice is one
	defer func() { testkit.OK(b, x.Close()) }()
	tasks := x.Tasks()
	p := prepare(b, e, x.Graph(), tasks, g.in)
	taken := 0
	for _, c := range p.calls {
		if _, ok := c.k.(*convolved); ok {
			taken++
		}
	}
	if taken != 9 {
		b.Errorf("the library has %d of 9 convolutions", taken)
	}
	p.launch()
	testkit.OK(b, p.stream.Synchronize())
	for b.Loop() {
		p.launch()
		testkit.OK(b, p.stream.Synchronize())
	}
	b.ReportMetric(float64(len(tasks)), "tasks")
	p.profile()
	p.close()
}
