package scaling

import (
	"cmp"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/internal/testkit"
	scaler "github.com/pinion-gpu/pinion/step/train"
)

// training is what a few steps leave.
type training struct {
	losses, scales []float64
	weights        [][]float32 // of the first layer, after each step
	steps          []float64   // as Adam counts them
}

// trained trains a network whose losses, times small, have gradients that float16 has not.
func trained(t *testing.T, config string, steps int, small float64, s *scaler.Scaler) (r training) {
	t.Helper()
	backend, err := gomlx.New(cmp.Or(os.Getenv("PINION_DEVICE"), "host") + config)
	testkit.OK(t, err)
	defer backend.Finalize()
	var opt optimizer.Interface = optimizer.Adam().LearningRate(0.01).Epsilon(1e-12).Done()
	if s != nil {
		opt, err = New(opt, *s)
		testkit.OK(t, err)
	}
	const samples, features = 16, 8
	x, y := make([]float32, samples*features), make([]float32, samples)
	for i := range x {
		x[i] = float32(math.Cos(float64(i * i)))
	}
	for i := range y {
		y[i] = x[i*features] * x[i*features+1]
	}
	store := model.NewStore()
	trainer := train.NewTrainer(backend, store, func(scope *model.Scope, x *Node) *Node {
		scope = scope.WithInitializer(func(g *Graph, s shapes.Shape) *Node {
			return MulScalar(Sin(Add(Iota(g, s, 0), MulScalar(Iota(g, s, s.Rank()-1), 5))), 0.5)
		})
		x = Tanh(layers.Dense(scope.In("in"), x, true, 16))
		return layers.Dense(scope.In("out"), Tanh(layers.Dense(scope.In("middle"), x, true, 16)), true, 1)
	}, func(labels, predictions []*Node) *Node {
		return MulScalar(loss.MeanSquaredError(labels, predictions), small)
	}, opt, nil, nil)
	for range steps {
		metrics, err := trainer.TrainStep(train.Batch{
			Inputs: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(slices.Clone(x), samples, features)},
			Labels: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(slices.Clone(y), samples, 1)},
		})
		testkit.OK(t, err)
		r.losses = append(r.losses, float64(tensors.ToScalar[float32](metrics[0])))
		value := func(path string) *tensors.Tensor {
			v, err := store.GetVariable(path).Value()
			testkit.OK(t, err)
			return v
		}
		if s != nil {
			r.scales = append(r.scales, float64(tensors.ToScalar[float32](value("/"+Scope+"/scale"))))
		}
		r.weights = append(r.weights, tensors.MustCopyFlatData[float32](value("/in/dense/weights")))
		r.steps = append(r.steps, float64(tensors.ToScalar[float32](value("/"+optimizer.AdamDefaultScope+"/step"))))
	}
	return r
}

// A step with a gradient that is not finite changes nothing but the scale.
func TestBacksOff(t *testing.T) {
	r := trained(t, ",amp=f16", 12, 1, &scaler.Scaler{Initial: 0x1p24, Backoff: 0x1p-4})
	left := 0
	for i, scale := range r.scales {
		was := 0x1p24
		if i > 0 {
			was = r.scales[i-1]
		}
		switch {
		case scale == was:
			if i > 0 && slices.Equal(r.weights[i], r.weights[i-1]) {
				t.Errorf("step %d trained nothing", i)
			}
		case scale == was/16 && i > 0:
			left++
			if !slices.Equal(r.weights[i], r.weights[i-1]) || r.losses[i] != r.losses[0] {
				t.Errorf("step %d, which was left out, changed something", i)
			}
		case scale == was/16:
			left++
		default:
			t.Errorf("step %d: the scale was %g and is %g", i, was, scale)
		}
	}
	if left == 0 || left > 6 || r.steps[11] != float64(12-left) || !(r.losses[11] < r.losses[0]) {
		t.Errorf("%d steps were left out; Adam counts %g; losses %g, scales %g", left, r.steps[11], r.losses, r.scales)
	}
}

// Gradients that float16 has not are there with a scale, and the scale grows.
func TestScales(t *testing.T) {
	const steps, small = 20, 1e-6
	want := trained(t, "", steps, small, nil)
	got := trained(t, ",amp=f16", steps, small, &scaler.Scaler{Interval: 8})
	without := trained(t, ",amp=f16", steps, small, nil)
	end := func(r training) float64 { return r.losses[steps-1] / r.losses[0] }
	t.Logf("the loss falls to %.3f in float32, to %.3f in float16, to %.3f without a scale", end(want), end(got), end(without))
	if math.Abs(end(got)-end(want)) > 0.05 {
		t.Errorf("losses %g in float16, %g in float32", got.losses, want.losses)
	}
	if math.Abs(end(without)-end(want)) < math.Abs(end(got)-end(want)) {
		t.Errorf("without a scale, losses are %g: no worse", without.losses)
	}
	if got.scales[6] != 65536 || got.scales[7] != 2*65536 || got.scales[15] != 4*65536 {
		t.Errorf("scales %g", got.scales)
	}
}

func TestArguments(t *testing.T) {
	_, err := New(optimizer.Adam().Done(), scaler.Scaler{Growth: 0.5})
	testkit.WantError(t, "a scale that shrinks", err, gomlx.ErrArgument, "0.5")
	_, err = New(lossesOnly{}, scaler.Scaler{})
	testkit.WantError(t, "an optimizer of losses", err, gomlx.ErrArgument, "takes no gradients")
}

type lossesOnly struct{ optimizer.Interface }
