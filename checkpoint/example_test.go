package checkpoint_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/checkpoint"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/transfer"
)

func Example() {
	path := sample()
	defer os.RemoveAll(filepath.Dir(path))
	ctx := context.Background()

	ck, err := safetensors.Open(path)
	if err != nil {
		panic(err)
	}
	defer ck.Close()
	dev, err := device.Open("host:64MiB")
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	engine, err := transfer.New(dev, transfer.Options{})
	if err != nil {
		panic(err)
	}
	defer engine.Close()

	weights, err := checkpoint.Load(ctx, ck, checkpoint.Options{Floats: dtype.BF16}, checkpoint.Target{Engine: engine})
	if err != nil {
		panic(err)
	}
	defer weights.Close()
	for _, t := range weights.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape, t.Bytes)
	}
	// Output:
	// embed.weight BF16 [100 8] 1600
	// head.weight BF16 [8 100] 1600
}

// sample writes a small checkpoint.
func sample() string {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	w, err := safetensors.Create(path, []safetensors.Tensor{
		{Name: "embed.weight", DType: safetensors.F32, Shape: []int64{100, 8}},
		{Name: "head.weight", DType: safetensors.F32, Shape: []int64{8, 100}},
	}, safetensors.WriterOptions{})
	if err != nil {
		panic(err)
	}
	for _, t := range w.Tensors() {
		if err := w.Write(t.Name, make([]byte, t.Bytes)); err != nil {
			panic(err)
		}
	}
	if err := w.Commit(); err != nil {
		panic(err)
	}
	return path
}
