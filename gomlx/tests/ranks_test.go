package tests

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/gomlx/ranks"
	"github.com/pinion-gpu/pinion/gomlx/scaling"
	"github.com/pinion-gpu/pinion/parallel/local"
	steptrain "github.com/pinion-gpu/pinion/step/train"
)

// Two ranks with half of the samples each train as one device with all of them, also within
// a budget, in 16 bits, with several batches a step, with scaled losses, averaging in 16
// bits, and sharing updates.
func TestRanks(t *testing.T) {
	const size = 2
	all := tasks()
	for name, c := range map[string]struct {
		task       string
		accumulate int
		amp        dtype.DType
		scaled     bool
		budget     bool
		share      bool
		average    dtype.DType
		tolerance  float64
	}{
		"MLP":         {task: "MLP", tolerance: 1e-4},
		"GPT":         {task: "GPT", tolerance: 1e-3},
		"accumulated": {task: "MLP", accumulate: 2, tolerance: 1e-4},
		"budget":      {task: "GPT", budget: true, tolerance: 1e-3},
		"bf16":        {task: "GPT", amp: dtype.BF16, tolerance: 0.03},
		"scaled":      {task: "MLP", amp: dtype.F16, scaled: true, tolerance: 0.03},
		"averaged":    {task: "GPT", average: dtype.BF16, tolerance: 0.01},

		"shared MLP":         {task: "MLP", share: true, tolerance: 1e-4},
		"shared CNN":         {task: "CNN", share: true, tolerance: 0.1}, // batches of half the size are normalised
		"shared GPT":         {task: "GPT", share: true, tolerance: 1e-3},
		"shared accumulated": {task: "MLP", share: true, accumulate: 2, tolerance: 1e-4},
		"shared budget":      {task: "GPT", share: true, budget: true, tolerance: 1e-3},
		"shared bf16":        {task: "GPT", share: true, amp: dtype.BF16, tolerance: 0.03},
		"shared scaled":      {task: "MLP", share: true, amp: dtype.F16, scaled: true, tolerance: 0.03},
		"shared averaged":    {task: "GPT", share: true, average: dtype.BF16, tolerance: 0.01},
		"averaged scaled":    {task: "MLP", average: dtype.F16, amp: dtype.F16, scaled: true, tolerance: 0.03},
	} {
		t.Run(name, func(t *testing.T) {
			k := all[c.task]
			run := func(o gomlx.Options, k task) (losses []float64, err error) {
				o.Autocast, o.Average = c.amp, c.average
				backend, err := gomlx.Open(o)
				if err != nil {
					return nil, err
				}
				defer backend.Finalize()
				opt := optimizer.Adam().LearningRate(0.01).Done()
				if o.Ranks != nil {
					wrap := ranks.New
					if c.share {
						wrap = ranks.Share
					}
					if opt, err = wrap(opt); err != nil {
						return nil, err
					}
				}
				if c.scaled {
					if opt, err = scaling.New(opt, steptrain.Scaler{Initial: 1 << 10}); err != nil {
						return nil, err
					}
				}
				modelFn := func(scope *model.Scope, x *Node) *Node { return k.model(scope.WithInitializer(waves), x) }
				trainer := train.NewTrainer(backend, model.NewStore(), modelFn, k.loss, opt, nil, nil)
				if c.accumulate > 1 {
					if err := trainer.AccumulateGradients(c.accumulate); err != nil {
						return nil, err
					}
				}
				for range k.steps {
					inputs, err1 := k.inputs.LocalClone()
					labels, err2 := k.labels.LocalClone()
					if err := errors.Join(err1, err2); err != nil {
						return nil, err
					}
					metrics, err := trainer.TrainStep(train.Batch{Inputs: []*tensors.Tensor{inputs}, Labels: []*tensors.Tensor{labels}})
					if err != nil {
						return nil, err
					}
					losses = append(losses, float64(tensors.ToScalar[float32](metrics[0])))
				}
				return losses, nil
			}
			want, err := run(gomlx.Options{Device: "host"}, k)
			if err != nil {
				t.Fatal(err)
			}
			var devices []device.Device
			for range size {
				dev, err := device.Open("host")
				if err != nil {
					t.Fatal(err)
				}
				defer dev.Close()
				devices = append(devices, dev)
			}
			comms, err := local.New(devices...)
			if err != nil {
				t.Fatal(err)
			}
			got := make([][]float64, size)
			var together sync.WaitGroup
			for rank, comm := range comms {
				together.Go(func() {
					o := gomlx.Options{Ranks: comm}
					if c.budget {
						o.Budget = 256 << 10
					}
					var err error
					if got[rank], err = run(o, share(k, rank, size)); err != nil {
						t.Errorf("rank %d: %v", rank, err)
						for _, c := range comms { // nobody waits for it
							c.Abort(err)
						}
					}
				})
			}
			together.Wait()
			if t.Failed() {
				return
			}
			t.Logf("%.4f on one, %.4f on the ranks", want, got)
			for i := range want {
				mean := (got[0][i] + got[1][i]) / 2
				if math.Abs(mean-want[i]) > c.tolerance*want[0] {
					t.Errorf("step %d: the ranks' mean loss is %g, and %g on one device", i, mean, want[i])
				}
			}
			if fmt.Sprint(got[0]) == fmt.Sprint(got[1]) {
				t.Error("ranks had the same samples")
			}
		})
	}
}

// share is a rank's part of a task's samples.
func share(k task, rank, size int) task {
	part := func(x *tensors.Tensor) *tensors.Tensor {
		dims := append([]int{}, x.Shape().Dimensions...)
		dims[0] /= size
		if x.DType() == dtypes.Int32 {
			flat, _ := tensors.CopyFlatData[int32](x)
			n := len(flat) / size
			return tensors.FromFlatDataAndDimensions(flat[rank*n:(rank+1)*n], dims...)
		}
		flat, _ := tensors.CopyFlatData[float32](x)
		n := len(flat) / size
		return tensors.FromFlatDataAndDimensions(flat[rank*n:(rank+1)*n], dims...)
	}
	k.inputs, k.labels = part(k.inputs), part(k.labels)
	return k
}

// On a backend without ranks, a mean of ranks is what it is of.
func TestMeanWithoutRanks(t *testing.T) {
	backend, err := gomlx.New("host")
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Finalize()
	exec, err := NewExec(backend, func(x *Node) *Node { return Add(ranks.Mean(x), ranks.Mean(x)) })
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Call([]float32{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	if flat, err := tensors.CopyFlatData[float32](out[0]); err != nil || fmt.Sprint(flat) != "[2 4]" {
		t.Error(flat, err)
	}
}

// A search for a batch size is for one device: ranks could find different ones.
func TestFitWithoutRanks(t *testing.T) {
	dev, err := device.Open("host")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	comms, err := local.New(dev)
	if err != nil {
		t.Fatal(err)
	}
	_, err = gomlx.Fit(t.Context(), gomlx.Options{Ranks: comms[0], Budget: 1 << 20}, 4, nil)
	if !errors.Is(err, gomlx.ErrArgument) {
		t.Errorf("%v, want %v", err, gomlx.ErrArgument)
	}
}
