package outofcore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/outofcore"
	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/transfer"
)

// A product of matrices in host memory, and what is done to an array that stays in
// a store.
func Example() {
	ctx := context.Background()
	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	engine, err := transfer.New(dev, transfer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	runner, err := outofcore.New(engine, outofcore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer runner.Close()

	a, c := []float32{1, 2, 3, 4}, make([]float32, 4)
	if _, err := runner.MatMul(ctx, outofcore.Product{
		A: outofcore.Float32(a, 2, 2), B: outofcore.Float32(a, 2, 2), TransB: true, C: outofcore.Float32(c, 2, 2)}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(c)

	store, err := tier.New(dev, tier.Options{DeviceBytes: 1 << 20, HostBytes: 8 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	x, err := outofcore.NewTiled(store, "x", dtype.F32, 1, 1<<20, 1, 64<<10) // 4 MiB in pieces of 256 KiB, all 0
	if err != nil {
		log.Fatal(err)
	}
	if _, err := runner.MapTiled(ctx, store, outofcore.TiledMap{Op: kernels.Linear, A: 2, B: 3, X: x, Out: x}); err != nil {
		log.Fatal(err)
	}
	sum, _, err := runner.ReduceTiled(ctx, store, outofcore.TiledReduction{Op: kernels.Sum, X: x})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum / (1 << 20))
	// Output:
	// [5 11 11 25]
	// 3
}
