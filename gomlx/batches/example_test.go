package batches_test

import (
	"fmt"
	"log"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/gomlx/batches"
	"github.com/pinion-gpu/pinion/loader"
)

func Example() {
	backend, err := gomlx.New("host")
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Finalize()

	// Points in a plane, and whether they lie above its diagonal.
	points := []float32{0, 1, 1, 0, 2, 3, 3, 1, 1, 4, 4, 2, 5, 6, 6, 3}
	samples, err := dataset.NewMemoryOf(points, []int{2}, dataset.MemoryOptions{Labels: []int32{1, 0, 1, 0, 1, 0, 1, 0}})
	if err != nil {
		log.Fatal(err)
	}
	ld, err := loader.New(backend.Device(), samples, loader.Options{Batch: 4, Shuffle: true, Epochs: 50})
	if err != nil {
		log.Fatal(err)
	}
	defer ld.Close()
	ds, err := batches.New(backend, ld, batches.Options{})
	if err != nil {
		log.Fatal(err)
	}

	trainer := train.NewTrainer(backend, model.NewStore(), func(scope *model.Scope, x *graph.Node) *graph.Node {
		return layers.Dense(scope.In("out"), x, true, 2)
	}, loss.SparseCategoricalCrossEntropyLogits, optimizer.Adam().LearningRate(0.1).Done(), nil, nil)
	loop := train.NewLoop(trainer)
	if _, err := loop.RunEpochs(ds, 50); err != nil {
		log.Fatal(err)
	}
	fmt.Println(loop.LoopStep, "steps")
	// Output: 100 steps
}
