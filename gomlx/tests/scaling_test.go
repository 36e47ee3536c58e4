package tests

import (
	"errors"
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/checkpoint"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/gomlx/scaling"
	steptrain "github.com/pinion-gpu/pinion/step/train"
)

// A scale that is too large shrinks until gradients are finite, and the model then learns
// as it does in float32. Steps that are left out change nothing.
func TestLossScaling(t *testing.T) {
	for name, k := range tasks() {
		t.Run(name, func(t *testing.T) {
			reference, err := gomlx.New("host")
			if err != nil {
				t.Fatal(err)
			}
			defer reference.Finalize()
			want := k.losses(t, reference)
			backend, err := gomlx.New("host,amp=f16")
			if err != nil {
				t.Fatal(err)
			}
			defer backend.Finalize()
			opt, err := scaling.New(optimizer.Adam().LearningRate(0.01).Done(), scaling.Scaler{Initial: 1 << 24, Interval: 1000})
			if err != nil {
				t.Fatal(err)
			}
			store := model.NewStore()
			if _, _, ok := scaling.State(store); ok {
				t.Error("there is a scale before the first step")
			}
			modelFn := func(scope *model.Scope, x *Node) *Node { return k.model(scope.WithInitializer(waves), x) }
			trainer := train.NewTrainer(backend, store, modelFn, k.loss, opt, nil, nil)
			run := func(inputs *tensors.Tensor) (loss, scale float64, skipped int) {
				metrics, err := trainer.TrainStep(train.Batch{Inputs: []*tensors.Tensor{clone(t, inputs)}, Labels: []*tensors.Tensor{clone(t, k.labels)}})
				if err != nil {
					t.Fatalf("%+v", err)
				}
				scale, skipped, ok := scaling.State(store)
				if !ok {
					t.Fatal("there is no scale")
				}
				return float64(tensors.ToScalar[float32](metrics[0])), scale, skipped
			}
			left, good := 0, 0
			for good < k.steps {
				loss, scale, skipped := run(k.inputs)
				if skipped > 0 {
					left++
				} else {
					if math.Abs(loss-want[good]) > 0.1*want[0] {
						t.Errorf("step %d has a loss of %g, and %g in float32", good, loss, want[good])
					}
					good++
				}
				if want := math.Ldexp(1, 24-left); scale != want || left > 24 {
					t.Fatalf("the scale is %g after %d steps that were left out, want %g", scale, left, want)
				}
			}
			if got := optimizer.GetGlobalStep(store); got != int64(good) {
				t.Errorf("%d steps, want %d", got, good)
			}
			t.Logf("%d steps were left out", left)
			if name == "GPT" { // takes integers
				return
			}
			weights := func() (all []float32) {
				for v := range store.IterVariables() {
					if v.Trainable {
						all = append(all, tensors.MustCopyFlatData[float32](v.MustValue())...)
					}
				}
				return all
			}
			before := weights()
			broken := clone(t, k.inputs)
			tensors.MustMutableFlatData(broken, func(x []float32) { x[1] = float32(math.NaN()) })
			if _, _, skipped := run(broken); skipped != 1 || !slices.Equal(before, weights()) {
				t.Errorf("a bad step changed weights; %d were left out", skipped)
			}
			if _, _, skipped := run(k.inputs); skipped != 0 || slices.Equal(before, weights()) {
				t.Errorf("a good step behind it changed no weights; %d were left out", skipped)
			}
			if err := trainer.AccumulateGradients(2); err == nil {
				t.Error("gradients are added up without the scale")
			}
		})
	}
}

// A checkpoint of GoMLX's brings the state of random numbers back as a trainable variable,
// which has no gradient.
func TestLossScalingResumes(t *testing.T) {
	backend, err := gomlx.New("host,amp=f16")
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Finalize()
	dir := t.TempDir()
	modelFn := func(scope *model.Scope, x *Node) *Node {
		x = layers.DropoutStatic(scope.In("dropout"), layers.Dense(scope.In("in"), x, true, 8), 0.1)
		return layers.Dense(scope.In("out"), x, true, 1)
	}
	for range 2 {
		opt, err := scaling.New(optimizer.Adam().Done(), scaling.Scaler{})
		if err != nil {
			t.Fatal(err)
		}
		store := model.NewStore()
		saved, err := checkpoint.Build(store).Dir(dir).Done()
		if err != nil {
			t.Fatal(err)
		}
		trainer := train.NewTrainer(backend, store, modelFn, loss.MeanSquaredError, opt, nil, nil)
		if _, err := trainer.TrainStep(train.Batch{
			Inputs: []*tensors.Tensor{tensors.FromValue([][]float32{{1, 2}, {3, 4}})},
			Labels: []*tensors.Tensor{tensors.FromValue([][]float32{{1}, {2}})},
		}); err != nil {
			t.Fatalf("%+v", err)
		}
		if err := saved.Save(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLossScalingRefuses(t *testing.T) {
	adam := optimizer.Adam().Done()
	for what, err := range map[string]error{
		"a negative scale": second(scaling.New(adam, scaling.Scaler{Initial: -1})),
		"no gradients":     second(scaling.New(plain{adam}, scaling.Scaler{})),
	} {
		if !errors.Is(err, steptrain.ErrArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// plain is an optimizer that takes a loss alone.
type plain struct{ optimizer.Interface }

func second[T any](_ T, err error) error { return err }
