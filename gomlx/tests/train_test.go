// Package tests trains GoMLX's models on Pinion, beside GoMLX's own backend in Go.
package tests

import (
	"cmp"
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/layers/norm"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"
	"github.com/gomlx/gomlx/ml/zoo/transformer"

	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/plan"
)

// testDevice is what tests run on.
func testDevice() string { return cmp.Or(os.Getenv("PINION_DEVICE"), "host") }

// task is a model and what it is to learn, the same on each backend.
type task struct {
	steps  int
	model  func(scope *model.Scope, x *Node) *Node
	loss   train.LossFn
	inputs *tensors.Tensor
	labels *tensors.Tensor
}

// losses trains on a backend and returns the loss of each step.
func (k task) losses(t *testing.T, backend compute.Backend) []float64 {
	t.Helper()
	store := model.NewStore()
	modelFn := func(scope *model.Scope, x *Node) *Node { return k.model(scope.WithInitializer(waves), x) }
	trainer := train.NewTrainer(backend, store, modelFn, k.loss, optimizer.Adam().LearningRate(0.01).Done(), nil, nil)
	var all []float64
	for range k.steps {
		batch := train.Batch{Inputs: []*tensors.Tensor{clone(t, k.inputs)}, Labels: []*tensors.Tensor{clone(t, k.labels)}}
		metrics, err := trainer.TrainStep(batch)
		if err != nil {
			t.Fatalf("%s: %+v", backend.Name(), err)
		}
		all = append(all, float64(tensors.ToScalar[float32](metrics[0])))
	}
	return all
}

func clone(t *testing.T, x *tensors.Tensor) *tensors.Tensor {
	t.Helper()
	c, err := x.LocalClone()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// waves initialises variables alike on all backends, whose random numbers differ.
func waves(g *Graph, shape shapes.Shape) *Node {
	if shape.Rank() == 0 {
		return Zeros(g, shape)
	}
	x := Reshape(IotaFull(g, shapes.Make(dtypes.Float32, shape.Size())), shape.Dimensions...)
	return ConvertDType(MulScalar(Sin(MulScalar(x, 0.7)), 0.2), shape.DType)
}

func tasks() map[string]task {
	const samples, features, classes = 32, 8, 3
	x := make([]float32, samples*features)
	y := make([]int32, samples)
	for i := range x {
		x[i] = float32(math.Cos(float64(i*i%101) / 7))
	}
	for i := range y {
		y[i] = int32(i * 7 % classes)
	}
	const batch, length, vocabulary = 4, 12, 17
	tokens := make([]int32, batch*length)
	next := make([]int32, batch*length)
	for i := range tokens {
		tokens[i] = int32(i * i % vocabulary)
		next[i] = int32((i + 1) * (i + 1) % vocabulary)
	}
	const images, side = 8, 8
	pixels := make([]float32, images*side*side*3)
	for i := range pixels {
		pixels[i] = float32(math.Sin(float64(i*i%257) / 5))
	}
	return map[string]task{
		"MLP": {
			steps: 20,
			model: func(scope *model.Scope, x *Node) *Node {
				x = Tanh(layers.Dense(scope.In("hidden"), x, true, 16))
				return layers.Dense(scope.In("out"), x, true, classes)
			},
			loss:   loss.SparseCategoricalCrossEntropyLogits,
			inputs: tensors.FromFlatDataAndDimensions(x, samples, features),
			labels: tensors.FromFlatDataAndDimensions(y, samples, 1),
		},
		"CNN": { // with a residual block, normalised batches and pooling
			steps: 10,
			model: func(scope *model.Scope, x *Node) *Node {
				x = layers.Convolution(scope.In("stem"), x).Channels(8).KernelSize(3).PadSame().Done()
				y := norm.BatchNorm(scope.In("norm"), x, -1).UseBackendInference(false).Done()
				y = activation.Relu(y)
				y = layers.Convolution(scope.In("conv"), y).Channels(8).KernelSize(3).PadSame().Done()
				x = MaxPool(Add(x, y)).Window(2).Done()
				x = layers.Convolution(scope.In("down"), x).Channels(16).KernelSize(3).Strides(2).PadSame().Done()
				x = activation.Relu(x)
				x = ReduceMean(x, 1, 2)
				return layers.Dense(scope.In("out"), x, true, classes)
			},
			loss:   loss.SparseCategoricalCrossEntropyLogits,
			inputs: tensors.FromFlatDataAndDimensions(pixels, images, side, side, 3),
			labels: tensors.FromFlatDataAndDimensions(y[:images], images, 1),
		},
		"GPT": {
			steps: 8,
			model: func(scope *model.Scope, x *Node) *Node {
				return transformer.New(scope).WithVocabSize(vocabulary).WithEmbedDim(16).WithNumLayers(2).WithNumHeads(2).
					WithHeadDim(8).WithFFNDim(32).WithMaxPosEmbed(length).WithCausalMask(true).Logits(x, transformer.CallOptions{})
			},
			loss:   loss.SparseCategoricalCrossEntropyLogits,
			inputs: tensors.FromFlatDataAndDimensions(tokens, batch, length),
			labels: tensors.FromFlatDataAndDimensions(next, batch, length, 1),
		},
	}
}

func TestTraining(t *testing.T) {
	for name, k := range tasks() {
		t.Run(name, func(t *testing.T) {
			reference, err := gobackend.New("")
			if err != nil {
				t.Fatal(err)
			}
			backend, err := gomlx.New(testDevice())
			if err != nil {
				t.Fatal(err)
			}
			want, got := k.losses(t, reference), k.losses(t, backend)
			t.Logf("losses in Go:   %.4f", want)
			t.Logf("losses, Pinion: %.4f", got)
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-3*math.Abs(want[i]) {
					t.Fatalf("step %d: the loss is %g, and %g on GoMLX's own backend", i, got[i], want[i])
				}
			}
			if last := got[len(got)-1]; !(last < 0.9*got[0]) {
				t.Errorf("the loss was %g and is %g after %d steps", got[0], last, k.steps)
			}
		})
	}
}

// leastBudget is the least that a plan is found for. On a GPU, the workspace of products is
// most of what a small model takes, so that no share of that will do.
func leastBudget(g *graph.Graph, exec step.Executor, o step.Options) int64 {
	o.Budget = 1
	_, err := step.Plan(g, exec, o)
	var impossible *plan.ImpossibleError
	if errors.As(err, &impossible) {
		return impossible.Found
	}
	return 0
}

// Within less memory, values are computed again, and the results are the same bits.
func TestBudget(t *testing.T) {
	k := tasks()["GPT"]
	k.steps = 3
	train := func(budget int64) (losses []float64, largest *step.Executable, least int64) {
		backend, err := gomlx.Open(gomlx.Options{Device: testDevice(), Budget: budget, Compile: func(g *graph.Graph, exec step.Executor, o step.Options) (*step.Executable, error) {
			x, err := step.Compile(g, exec, o)
			if err == nil && (largest == nil || x.PeakBytes() > largest.PeakBytes()) {
				largest, least = x, leastBudget(g, exec, o)
			}
			return x, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer backend.Finalize()
		return k.losses(t, backend), largest, least
	}
	want, free, budget := train(0)
	got, planned, _ := train(budget)
	if !slices.Equal(got, want) {
		t.Errorf("within %d bytes the losses are %v, and %v without a budget", budget, got, want)
	}
	t.Logf("%d of %d bytes, %d runs of %d tasks", planned.PeakBytes(), free.PeakBytes(), len(planned.Plan().Runs), len(planned.Tasks()))
	if planned.PeakBytes() > budget || len(planned.Plan().Runs) <= len(planned.Tasks()) {
		t.Errorf("a budget of %d bytes: a peak of %d, with %d runs of %d tasks", budget, planned.PeakBytes(), len(planned.Plan().Runs), len(planned.Tasks()))
	}
}

// In 16 bits, models learn as in float32.
func TestAutocast(t *testing.T) {
	for name, k := range tasks() {
		t.Run(name, func(t *testing.T) {
			train := func(config string) []float64 {
				backend, err := gomlx.New(config)
				if err != nil {
					t.Fatal(err)
				}
				defer backend.Finalize()
				return k.losses(t, backend)
			}
			want := train(testDevice())
			for _, amp := range []string{"bf16", "f16"} {
				got := train(testDevice() + ",amp=" + amp)
				t.Logf("%s: %.4f, float32: %.4f", amp, got, want)
				if slices.Equal(got, want) {
					t.Errorf("%s: nothing is different", amp)
				}
				for i := range want {
					if math.Abs(got[i]-want[i]) > 0.1*want[0] {
						t.Errorf("%s: step %d has a loss of %g, and %g in float32", amp, i, got[i], want[i])
					}
				}
			}
		})
	}
}

// GoMLX's trainer adds gradients up over several batches; variables hold the sums.
func TestAccumulateGradients(t *testing.T) {
	reference, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	backend, err := gomlx.New("host")
	if err != nil {
		t.Fatal(err)
	}
	k := tasks()["MLP"]
	losses := func(backend compute.Backend) (all []float64) {
		modelFn := func(scope *model.Scope, x *Node) *Node { return k.model(scope.WithInitializer(waves), x) }
		trainer := train.NewTrainer(backend, model.NewStore(), modelFn, k.loss, optimizer.Adam().LearningRate(0.01).Done(), nil, nil)
		if err := trainer.AccumulateGradients(3); err != nil {
			t.Fatal(err)
		}
		for range 12 {
			metrics, err := trainer.TrainStep(train.Batch{Inputs: []*tensors.Tensor{clone(t, k.inputs)}, Labels: []*tensors.Tensor{clone(t, k.labels)}})
			if err != nil {
				t.Fatalf("%s: %+v", backend.Name(), err)
			}
			all = append(all, float64(tensors.ToScalar[float32](metrics[0])))
		}
		return all
	}
	want, got := losses(reference), losses(backend)
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-3*want[i] {
			t.Errorf("step %d: the loss is %g, and %g on GoMLX's own backend", i, got[i], want[i])
		}
	}
	if got[2] != got[0] || got[3] >= got[0] {
		t.Errorf("losses are %v with three batches a step", got)
	}
}
