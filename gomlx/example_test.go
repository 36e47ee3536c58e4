package gomlx_test

import (
	"fmt"
	"log"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	_ "github.com/pinion-gpu/pinion/gomlx"
)

// What GoMLX does for a model, by hand.
func Example() {
	backend, err := compute.NewWithConfig("pinion:host")
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Finalize()

	builder := backend.Builder("square")
	shape := shapes.Make(dtypes.Float32, 3)
	f := builder.Main()
	x, err := f.Parameter("x", shape, nil)
	if err != nil {
		log.Fatal(err)
	}
	y, err := f.Mul(x, x)
	if err != nil {
		log.Fatal(err)
	}
	if err := f.Return([]compute.Value{y}, nil); err != nil {
		log.Fatal(err)
	}
	square, err := builder.Compile()
	if err != nil {
		log.Fatal(err)
	}

	in, err := backend.BufferFromFlatData(0, []float32{1, 2, 3}, shape)
	if err != nil {
		log.Fatal(err)
	}
	out, err := square.Execute([]compute.Buffer{in}, []bool{true}, 0)
	if err != nil {
		log.Fatal(err)
	}
	flat := make([]float32, 3)
	if err := out[0].ToFlatData(flat); err != nil {
		log.Fatal(err)
	}
	fmt.Println(flat)
	// Output: [1 4 9]
}
