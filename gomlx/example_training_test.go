package gomlx_test

import (
	"fmt"
	"log"
	"math"
	"slices"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	_ "github.com/pinion-gpu/pinion/gomlx"
)

// A program for GoMLX needs an import, and another name for its backend. The step takes 637
// KiB if everything is kept. Within a budget it computes some again, and has the same losses.
func Example_training() {
	fitted := func(config string) (losses []float32) {
		backend, err := compute.NewWithConfig(config) // all that is Pinion's
		if err != nil {
			log.Fatal(err)
		}
		defer backend.Finalize()

		// A network learns a sine.
		const samples = 512
		x, y := make([]float32, samples), make([]float32, samples)
		for i := range x {
			x[i] = float32(i) / samples
			y[i] = float32(math.Sin(6 * float64(x[i])))
		}
		store := model.NewStore()
		store.SetParam(model.ParamInitialSeed, int64(1))
		trainer := train.NewTrainer(backend, store, func(scope *model.Scope, x *graph.Node) *graph.Node {
			for i := range 3 {
				x = graph.Tanh(layers.Dense(scope.In("layer_%d", i), x, true, 64))
			}
			return layers.Dense(scope.In("out"), x, true, 1)
		}, loss.MeanSquaredError, optimizer.Adam().LearningRate(0.01).Done(), nil, nil)
		for range 40 {
			metrics, err := trainer.TrainStep(train.Batch{
				Inputs: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(x, samples, 1)},
				Labels: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(y, samples, 1)},
			})
			if err != nil {
				log.Fatal(err)
			}
			losses = append(losses, tensors.ToScalar[float32](metrics[0]))
		}
		return losses
	}

	for _, config := range []string{"go", "pinion:host", "pinion:host,budget=560KiB"} {
		losses := fitted(config)
		fmt.Println(config, "learned it:", losses[39] < losses[0]/4)
	}
	fmt.Println("the same bits:", slices.Equal(fitted("pinion:host"), fitted("pinion:host,budget=560KiB")))
	// Output:
	// go learned it: true
	// pinion:host learned it: true
	// pinion:host,budget=560KiB learned it: true
	// the same bits: true
}
