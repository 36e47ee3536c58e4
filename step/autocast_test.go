package step_test

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/autocast"
)

var halves = []dtype.DType{dtype.BF16, dtype.F16}

// Losses of a model in 16 bits stay near those in float32, and it learns as much.
func TestAutocastTrains(t *testing.T) {
	exec := newExecutor(t)
	n := model(t, 3)
	losses := func(g *graph.Graph) (list []float64) {
		x := testkit.Must(step.Compile(g, exec, step.Options{Donate: n.donate}))(t)
		defer x.Close()
		const steps = 8
		out := train(t, n, x, steps)
		for k := range steps {
			list = append(list, float64(math.Float32frombits(binary.LittleEndian.Uint32(out[k*len(out)/steps]))))
		}
		return list
	}
	want := losses(n.Graph)
	for _, half := range halves {
		got := losses(testkit.Must(autocast.Graph(n.Graph, half))(t))
		if slices.Equal(got, want) {
			t.Errorf("%v: nothing is different", half)
		}
		for k := range want {
			if math.Abs(got[k]-want[k]) > 0.05*want[0] {
				t.Errorf("%v: step %d has a loss of %v, and %v in float32", half, k, got[k], want[k])
			}
		}
		t.Logf("%v: %.4f; float32: %.4f", half, got, want)
	}
}

// Casts of whole models are where somebody put them who knows the models, or better.
func TestAutocastOfModels(t *testing.T) {
	testkit.OnlyComputes(t)
	exec := newExecutor(t)
	for name, of := range map[string]func(dtype.DType) (*models.Model, error){
		"GPT": func(d dtype.DType) (*models.Model, error) {
			return models.GPT{Layers: 3, Width: 64, Heads: 2, Batch: 4, Length: 32, Vocabulary: 100, Type: d, Optimizer: models.Adam}.Model()
		},
		"attention by products": func(d dtype.DType) (*models.Model, error) {
			return models.GPT{Layers: 3, Width: 64, Heads: 2, Batch: 4, Length: 32, Vocabulary: 100, Type: d, Optimizer: models.Adam, PlainAttention: true}.Model()
		},
		"ResNet": func(d dtype.DType) (*models.Model, error) {
			return models.ResNet{Blocks: []int{1, 1}, Width: 8, Batch: 4, Size: 32, Classes: 10, Type: d, Optimizer: models.SGD}.Model()
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(m *models.Model, g *graph.Graph) (losses []float64, bytes int64) {
				x := testkit.Must(step.Compile(g, exec, step.Options{Donate: m.Donate}))(t)
				defer x.Close()
				in := testkit.Must(m.Start(context.Background(), exec, x.Memory(), 1))(t)
				for range 3 {
					out := testkit.Must(m.Step(context.Background(), x, in))(t)
					losses = append(losses, testkit.Must(m.Loss(out))(t))
					testkit.OK(t, m.Free(out))
				}
				for _, v := range in {
					testkit.OK(t, v.Free())
				}
				return losses, x.PeakBytes() - x.Plan().Resident
			}
			plain := testkit.Must(of(dtype.F32))(t)
			byHand := testkit.Must(of(dtype.BF16))(t)
			want, whole := run(plain, plain.Graph)
			_, most := run(byHand, byHand.Graph)
			got, bytes := run(plain, testkit.Must(autocast.Graph(plain.Graph, dtype.BF16))(t))
			t.Logf("%d bytes between, %d by hand, %d in float32; losses %.4f, %.4f in float32", bytes, most, whole, got, want)
			for i := range want {
				if math.Abs(got[i]-want[i]) > 0.05*want[0] {
					t.Errorf("step %d has a loss of %v, and %v in float32", i, got[i], want[i])
				}
			}
			if bytes > most*5/4 {
				t.Errorf("%d bytes between tasks, and %d with casts by hand", bytes, most)
			}
		})
	}
}

// It is the same each time, and is done once it was done.
func TestAutocastAgain(t *testing.T) {
	graphs := []*graph.Graph{model(t, 2).Graph, residual(t).Graph}
	for _, model := range []func() (*models.Model, error){
		models.GPT{Layers: 2, Width: 16, Heads: 2, Batch: 2, Length: 8, Vocabulary: 20, Optimizer: models.Adam}.Model,
		models.GPT{Layers: 2, Width: 16, Heads: 2, Batch: 2, Length: 8, Vocabulary: 20, PlainAttention: true}.Model,
		models.ResNet{Blocks: []int{1, 2}, Width: 4, Batch: 2, Size: 32, Classes: 3}.Model,
	} {
		graphs = append(graphs, testkit.Must(model())(t).Graph)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		m, _ := layers(t, rng, 1+rng.IntN(6))
		graphs = append(graphs, m.Graph)
	}
	for i, g := range graphs {
		before := g.String()
		for _, half := range halves {
			once := testkit.Must(autocast.Graph(g, half))(t)
			if again := testkit.Must(autocast.Graph(g, half))(t); again.String() != once.String() {
				t.Errorf("graph %d, %v: it differs the second time", i, half)
			}
			if twice := testkit.Must(autocast.Graph(once, half))(t); twice.String() != once.String() {
				t.Errorf("graph %d, %v: it is not done\n%v\n%v", i, half, once, twice)
			}
			for k, v := range once.Outputs() {
				if want := g.Outputs()[k].Shape(); !v.Shape().Equal(want) {
					t.Errorf("graph %d, %v: output %d is %v, was %v", i, half, k, v.Shape(), want)
				}
			}
			for k, v := range once.Parameters() {
				if was := g.Parameters()[k].Node(); !v.Shape().Equal(was.Shapes[0]) || *v.Node().Attr.(*graph.Input) != *was.Attr.(*graph.Input) {
					t.Errorf("graph %d, %v: parameter %d is %v, was %v", i, half, k, v.Node(), was)
				}
			}
		}
		if g.String() != before {
			t.Errorf("graph %d was changed", i)
		}
	}
}

// residual is two blocks of a convolutional network and their pooled result: a batch is
// normalised and added to what went around it.
func residual(t *testing.T) maker {
	m := newMaker(t)
	x := m.param(f32(2, 6, 6, 4))
	for range 2 {
		k, scale, offset := m.param(f32(3, 3, 4, 4)), m.param(f32(4)), m.param(f32(4))
		y := m.must(m.ConvGeneral(x, k, graph.ConvAxes{ImageBatch: 0, ImageSpatial: []int{1, 2}, ImageChannels: 3, KernelSpatial: []int{0, 1}, KernelInput: 2, KernelOutput: 3,
			ResultSpatial: []int{1, 2}, ResultChannels: 3, Low: []int{1, 1}, High: []int{1, 1}}))
		y, _, _, err := m.BatchNormTraining(y, scale, offset, 1e-5, 3)
		testkit.OK(t, err)
		x = m.must(m.Binary(graph.Max, m.must(m.Binary(graph.Add, x, y)), m.must(m.Fill(0, f32()))))
	}
	pooled := m.must(m.ReduceWindow(x, graph.Windows{Reduction: graph.ReduceMax, Dims: []int{1, 2, 2, 1}}))
	mean := m.must(m.Reduce(graph.ReduceSum, pooled, 1, 2))
	logits := m.must(m.DotGeneral(mean, m.param(f32(4, 3)), graph.DotAxes{Contracted: [2][]int{{1}, {0}}}))
	testkit.OK(t, m.SetOutputs(logits))
	return m
}

// Where operations end up.
func TestAutocastPolicy(t *testing.T) {
	types := func(g *graph.Graph, op graph.Op) (list []string) {
		for _, n := range g.Nodes() {
			if n.Op == op {
				list = append(list, n.Shapes[0].Type.String())
			}
		}
		return list
	}
	want := func(g *graph.Graph, op graph.Op, wanted ...string) {
		t.Helper()
		if got := types(g, op); !slices.Equal(got, wanted) {
			t.Errorf("%v: %v, want %v\n%v", op, got, wanted, g)
		}
	}
	// The blocks of a network: what goes around them is low as soon as it was convolved, and
	// normalisations are not.
	blocks := testkit.Must(autocast.Graph(residual(t).Graph, dtype.BF16))(t)
	want(blocks, graph.ConvGeneral, "bf16", "bf16")
	want(blocks, graph.Rsqrt, "f32", "f32")
	want(blocks, graph.ReduceSum, "f32", "f32", "f32", "f32", "f32")
	want(blocks, graph.DotGeneral, "f32")

	// Attention and a perceptron, with their gradients and Adam.
	n := model(t, 1)
	g := testkit.Must(autocast.Graph(n.Graph, dtype.BF16))(t)
	for _, op := range []graph.Op{graph.Exp, graph.Log, graph.Div, graph.Sqrt, graph.Pow, graph.ReduceSum, graph.ReduceMax, graph.ScatterSum} {
		for _, got := range types(g, op) {
			if got != "f32" {
				t.Errorf("%v is %s", op, got)
			}
		}
	}
	want(g, graph.Tanh, "bf16")
	casts := map[graph.Value]int{} // of parameters
	for _, n := range g.Nodes() {
		if n.Op == graph.DotGeneral && (n.Inputs[0].Shape().Type != dtype.BF16 || n.Inputs[1].Shape().Type != dtype.BF16) {
			t.Errorf("%v", n)
		}
		if n.Op == graph.Convert && n.Inputs[0].Node().Op == graph.Parameter && n.Inputs[0].Shape().Type == dtype.F32 {
			casts[n.Inputs[0]]++
		}
	}
	// wq, wk, wv, w1, b1, w2 and wo, but not the embeddings, and nothing of the optimizer's.
	if len(casts) != 7 {
		t.Errorf("%d parameters are cast", len(casts))
	}
	for v, n := range casts {
		if n != 1 {
			t.Errorf("%v is cast %d times", v.Node(), n)
		}
	}
	// Gradients of six matrices are not rounded, nor three products that make up that of
	// the embeddings.
	if got := strings.Count(strings.Join(types(g, graph.DotGeneral), " "), "f32"); got != 9 {
		t.Errorf("%d products have float32 results", got)
	}

	// Between two products everything is low, but for what a constant says that f16 has not.
	m := newMaker(t)
	x, w := m.param(f32(4, 4)), m.param(f32(4, 4))
	axes := graph.DotAxes{Contracted: [2][]int{{1}, {0}}}
	z := m.must(m.DotGeneral(x, w, axes))
	z = m.must(m.Binary(graph.Add, z, m.must(m.Fill(1e-8, f32(4, 4)))))
	z = m.must(m.Where(m.must(m.Binary(graph.Greater, z, m.must(m.Fill(0, f32())))), z, m.must(m.Unary(graph.Neg, z))))
	testkit.OK(t, m.SetOutputs(m.must(m.DotGeneral(z, w, axes))))
	b := testkit.Must(autocast.Graph(m.Graph, dtype.BF16))(t)
	want(b, graph.Add, "bf16")
	want(b, graph.Where, "bf16")
	h := testkit.Must(autocast.Graph(m.Graph, dtype.F16))(t)
	want(h, graph.Add, "f32")
	want(h, graph.Where, "f32") // one cast behind it, or more before
	if got := types(h, graph.Convert); len(got) != 4 {
		t.Errorf("casts to %v\n%v", got, h)
	}

	// Attention is a product, whose sums are not rounded.
	m = newMaker(t)
	q := m.param(f32(2, 3, 4, 8))
	out, sums, err := m.Attention(q, q, q, graph.AttentionOptions{})
	testkit.OK(t, err)
	dq, dk, _, err := m.AttentionBackward(q, q, q, out, sums, m.must(m.Unary(graph.Tanh, out)), graph.AttentionOptions{})
	testkit.OK(t, err)
	testkit.OK(t, m.SetOutputs(out, dq, dk))
	att := testkit.Must(autocast.Graph(m.Graph, dtype.F16))(t)
	want(att, graph.Attention, "f16")
	want(att, graph.AttentionBackward, "f16")
	want(att, graph.Tanh, "f16")
	for _, n := range att.Nodes() {
		if n.Op == graph.Attention && n.Shapes[1].Type != dtype.F32 || n.Op == graph.AttentionBackward && n.Inputs[4].Shape().Type != dtype.F32 {
			t.Errorf("%v", n)
		}
	}
	if x, err := step.Compile(att, newExecutor(t), step.Options{}); err != nil {
		t.Error(err)
	} else {
		testkit.OK(t, x.Close())
	}

	for _, wrong := range []dtype.DType{dtype.F32, dtype.F64, dtype.I8, 0} {
		_, err := autocast.Graph(m.Graph, wrong)
		testkit.WantError(t, wrong.String(), err, step.ErrArgument, "bf16 or f16")
	}
}
