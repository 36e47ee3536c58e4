package loader_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/loader"
)

// A training loop that goes on where it was when it is stopped and started
// again: here after every three batches.
func Example_training() {
	dir, err := os.MkdirTemp("", "training")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for range 4 {
		if err := train(context.Background(), filepath.Join(dir, "loader.json"), 3); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// epoch 0: [5 6] [3 1] [0 9]
	// epoch 0: [4 2] [7 8]
	// epoch 0 is over
	// epoch 1: [5 7]
	// epoch 1: [4 9] [0 3] [6 2]
	// epoch 1: [8 1]
	// epoch 1 is over
}

// train uses at most so many batches, beginning where the state says.
func train(ctx context.Context, state string, most int) (err error) {
	dev, err := device.Open("host")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	numbers := make([]float32, 10)
	ds, err := dataset.NewMemoryOf(numbers, []int{1}, dataset.MemoryOptions{})
	if err != nil {
		return err
	}

	options := loader.Options{Batch: 2, Shuffle: true, Seed: 7, Epochs: 2, StateAtEnd: loader.EmptyRest}
	switch saved, err := loader.ReadState(state); {
	case err == nil:
		options.Resume = &saved
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	ld, err := loader.New(dev, ds, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ld.Close()) }()
	stream, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()

	used := 0
	for epoch := ld.State().Epoch; epoch < options.Epochs; epoch++ {
		line := fmt.Sprintf("epoch %d:", epoch)
		for b, err := range ld.Epoch(ctx) {
			if err != nil {
				return err
			}
			// … queue the step on stream; it reads b.Data and b.DeviceLabels.
			line += fmt.Sprint(" ", b.Indexes)
			if err := b.Release(stream); err != nil {
				return err
			}
			if used++; used == most { // stopped here; the weights are saved as well
				fmt.Println(line)
				return ld.State().WriteFile(state)
			}
		}
		if line != fmt.Sprintf("epoch %d:", epoch) {
			fmt.Println(line)
		}
		// … validate
		fmt.Println("epoch", epoch, "is over")
	}
	return ld.State().WriteFile(state)
}
