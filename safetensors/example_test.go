package safetensors_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/safetensors"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")

	w, err := safetensors.Create(path, []safetensors.Tensor{
		{Name: "head.weight", DType: safetensors.BF16, Shape: []int64{2, 3}},
		{Name: "head.bias", DType: safetensors.F32, Shape: []int64{2}},
	}, safetensors.WriterOptions{Metadata: map[string]string{"format": "pt"}})
	if err != nil {
		panic(err)
	}
	defer w.Discard()
	for _, t := range w.Tensors() {
		if err := w.Write(t.Name, make([]byte, t.Bytes)); err != nil {
			panic(err)
		}
	}
	if err := w.Commit(); err != nil {
		panic(err)
	}

	ck, err := safetensors.Open(path)
	if err != nil {
		panic(err)
	}
	defer ck.Close()
	for _, t := range ck.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape, t.Bytes)
	}
	// Output:
	// head.bias F32 [2] 8
	// head.weight BF16 [2 3] 12
}
