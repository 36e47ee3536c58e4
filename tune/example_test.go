package tune_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/tune"
	"github.com/pinion-gpu/pinion/vram"
)

func ExampleFeed() {
	dev, err := device.Open("host:64MiB")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	spec := dataset.Spec{Shape: []int{64}, DType: dtype.F32}
	rows, err := dataset.NewMemory(make([]byte, 1000*spec.Bytes()), spec, dataset.MemoryOptions{})
	if err != nil {
		log.Fatal(err)
	}
	result, err := tune.Feed(context.Background(), dev, rows, tune.Options{
		Budget:   200 * time.Millisecond, // 30 s without
		StepTime: 5 * time.Millisecond,   // how long the device uses a batch
		Space:    tune.Space{Workers: []int{2}, Batch: []int{50}, Prefetch: []int{4}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Best)
	fmt.Println(result.Best.PyTorch())
	// Output:
	// 2 workers, batch 50, prefetch 4, pageable
	// DataLoader(dataset, batch_size=50, shuffle=True, num_workers=2, pin_memory=False, prefetch_factor=2, persistent_workers=True)
}

func ExampleBatchSize() {
	ctx := context.Background()
	dev, err := device.Open("host:1GiB")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	pool, err := vram.New(dev, vram.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	// A training step: here no more than its activations, 3 MiB a sample.
	step := func(ctx context.Context, n int) error {
		activations, err := pool.Alloc(ctx, int64(n)*3<<20, vram.Use{Purpose: vram.Activations})
		if err != nil {
			return err
		}
		return activations.Free()
	}
	result, err := tune.BatchSize(ctx, dev, tune.ProbePool(pool, dev, step), tune.BatchOptions{Multiple: 8})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a batch of", result.Batch, "after", len(result.Probes), "probes")
	// Output: a batch of 272 after 5 probes
}
