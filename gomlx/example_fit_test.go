package gomlx_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/gomlx"
)

// A step on 512 samples at once does not fit 400 KiB; in several batches, it does.
func ExampleFit() {
	opts := gomlx.Options{Device: "host", Budget: 400 << 10}
	found, err := gomlx.Fit(context.Background(), opts, 512, func(b *gomlx.Backend, micro, accumulate int) error {
		trainer := train.NewTrainer(b, model.NewStore(), func(scope *model.Scope, x *graph.Node) *graph.Node {
			for i := range 3 {
				x = graph.Tanh(layers.Dense(scope.In("layer_%d", i), x, true, 64))
			}
			return layers.Dense(scope.In("out"), x, true, 1)
		}, loss.MeanSquaredError, optimizer.Adam().Done(), nil, nil)
		if accumulate > 1 {
			if err := trainer.AccumulateGradients(accumulate); err != nil {
				return err
			}
		}
		for range accumulate {
			_, err := trainer.TrainStep(train.Batch{
				Inputs: []*tensors.Tensor{tensors.FromShape(shapes.Make(dtypes.Float32, micro, 1))},
				Labels: []*tensors.Tensor{tensors.FromShape(shapes.Make(dtypes.Float32, micro, 1))},
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("all samples:", found.Micro*found.Accumulate)
	fmt.Println("in several batches:", found.Accumulate > 1)
	fmt.Println("within the budget:", found.Bytes <= opts.Budget)
	// Output:
	// all samples: 512
	// in several batches: true
	// within the budget: true
}
