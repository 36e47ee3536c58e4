package pipeline_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/pipeline"
)

// Bytes become float32 on a device that has room for neither array.
func Example() {
	dev, err := device.Open("host:8MiB")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	engine, err := transfer.New(dev, transfer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	set, err := kernels.Load(dev)
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()

	in := make([]byte, 10<<20)
	in[len(in)-1] = 42
	out := make([]byte, 4*len(in))
	report, err := pipeline.Run(context.Background(), engine, pipeline.Pipeline{
		In: pipeline.Bytes(in), Out: pipeline.Bytes(out), OutItemBytes: 4,
		Compute: func(s device.Stream, c pipeline.Chunk) error {
			return set.Cast(s, c.Out, dtype.F32, c.In, dtype.U8, c.InBytes)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	last := math.Float32frombits(binary.LittleEndian.Uint32(out[len(out)-4:]))
	fmt.Printf("%d MiB -> %d MiB, the last element is %g\n", report.InBytes>>20, report.OutBytes>>20, last)
	// Output: 10 MiB -> 40 MiB, the last element is 42
}
