package window_test

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/window"
)

// A model that sees windows of 4 x 4 doubles what it sees, of an image of 6 x 9.
func Example() {
	size := []int{6, 9}
	image := &window.Array{Size: size, Data: make([]float32, 6*9)}
	for i := range image.Data {
		image.Data[i] = float32(i)
	}
	p, err := window.NewPlan(size, window.Options{Window: []int{4, 4}, Overlap: []float64{0.5}, Blend: window.Gaussian, Batch: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	result := &window.Array{Size: size}
	err = p.Run(context.Background(), 1, image, func(_ context.Context, windows []float32, n int) ([]float32, error) {
		out := make([]float32, len(windows)) // [n, 1 class, 4, 4]
		for i, v := range windows {
			out[i] = 2 * v
		}
		return out, nil
	}, result)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p)
	fmt.Printf("%.3f\n", result.Data[:9])
	// Output:
	// 8 windows of [4 4] over [6 9]
	// [0.000 2.000 4.000 6.000 8.000 10.000 12.000 14.000 16.000]
}
