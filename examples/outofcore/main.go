// Outofcore multiplies matrices of which only a part fits into the device
// memory that it may use, and sums the squares of the result.
//
//	go run ./examples/outofcore
//	go run ./examples/outofcore -device cuda:0 -n 16384 -share 8
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/outofcore"
	"github.com/pinion-gpu/pinion/transfer"
)

func main() {
	log.SetFlags(0)
	name := flag.String("device", "host", "device to compute on")
	n := flag.Int64("n", 1024, "rows and columns of the matrices")
	share := flag.Int64("share", 4, "device memory is the bytes of the matrices divided by this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *name, *n, *share); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, name string, n, share int64) error {
	if n < 1 || n > 1<<16 || share < 1 {
		return fmt.Errorf("%d rows, a share of 1/%d; 1 to %d rows are possible, and a share of 1 or less", n, share, 1<<16)
	}
	dev, err := device.Open(name)
	if err != nil {
		return err
	}
	defer dev.Close()
	engine, err := transfer.New(dev, transfer.Options{})
	if err != nil {
		return err
	}
	defer engine.Close()
	const workspace = 32 << 20 // of cuBLASLt
	budget := 3 * n * n * 4 / share
	if !dev.Info().Integrated {
		budget += workspace
	}
	runner, err := outofcore.New(engine, outofcore.Options{DeviceBytes: budget})
	if err != nil {
		return err
	}
	defer runner.Close()

	a, b, c := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
	for i := range a {
		a[i], b[i] = float32(i%7)-3, float32(i%5)-2
	}
	report, err := runner.MatMul(ctx, outofcore.Product{
		A: outofcore.Float32(a, n, n), B: outofcore.Float32(b, n, n), C: outofcore.Float32(c, n, n),
	})
	if err != nil {
		return err
	}
	squares, _, err := runner.Reduce(ctx, outofcore.Reduction{Op: kernels.SumSquares, X: outofcore.Floats(c)})
	if err != nil {
		return err
	}
	fmt.Printf("%ssum of squares: %g\n", report, squares)
	return nil
}
