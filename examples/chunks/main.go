// Chunks normalises a matrix that is larger than the device's memory, and so
// is its result: rows of bytes become rows of float16, each element
// (x/255 - 0.5) / 0.25.
//
// By hand this is a loop with two or three buffers, as many streams, events
// between them, and bookkeeping for the last chunk. Here it is the call of
// pipeline.Run: the engine cuts the matrix at rows, copies a chunk in and another
// one out while a third is computed on, and reports how well that went.
//
//	go run ./examples/chunks
//	go run ./examples/chunks -device cuda:0 -rows 1000000
//	go run ./examples/chunks -pinned
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
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/pipeline"
)

const columns = 4096

func main() {
	log.SetFlags(0)
	name := flag.String("device", "host:64MiB", "device to compute on")
	rows := flag.Int64("rows", 32<<10, "rows of the matrix, of 4096 bytes each")
	pin := flag.Bool("pinned", false, "keep matrix and result in pinned memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *name, *rows, *pin); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, name string, rows int64, pin bool) error {
	if rows < 1 || rows > 1<<32 {
		return fmt.Errorf("%d rows; 1 to %d are possible", rows, int64(1)<<32)
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
	set, err := kernels.Load(dev)
	if err != nil {
		return err
	}
	defer set.Close()
	matrix, result, free, err := memory(dev, rows*columns, pin)
	if err != nil {
		return err
	}
	defer free()
	for i := range matrix {
		matrix[i] = byte(i >> 12)
	}

	report, err := pipeline.Run(ctx, engine, pipeline.Pipeline{
		In: pipeline.Bytes(matrix), ItemBytes: columns, Out: pipeline.Bytes(result), OutItemBytes: 2 * columns,
		Compute: func(s device.Stream, c pipeline.Chunk) error {
			return set.Normalize(s, kernels.Normalize{
				Dst: c.Out, DType: dtype.F16, Src: c.In,
				N: 1, C: 1, H: int(c.InBytes / columns), W: columns, Mean: []float64{0.5}, Std: []float64{0.25},
			})
		},
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d x %d bytes normalised to float16\n%s", dev.Info().Name, rows, columns, report)
	return nil
}

// memory makes n bytes for the matrix and 2n for the result, pinned or not.
func memory(dev device.Device, n int64, pin bool) (matrix, result []byte, free func(), err error) {
	if !pin {
		return make([]byte, n), make([]byte, 2*n), func() {}, nil
	}
	pool, err := pinned.NewPool(dev, pinned.Options{Name: "chunks"})
	if err != nil {
		return nil, nil, nil, err
	}
	all, err := pool.Alloc(context.Background(), 3*n)
	if err != nil {
		pool.Close()
		return nil, nil, nil, err
	}
	return all.Bytes()[:n], all.Bytes()[n:], func() { all.Free(); pool.Close() }, nil
}
