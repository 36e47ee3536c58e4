package window_test

import (
	"context"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/window"
)

// What windows cost beside the model: 16 classes over 128 x 128 x 128.
func BenchmarkRun(b *testing.B) {
	size := []int{128, 128, 128}
	p := testkit.Must(window.NewPlan(size, window.Options{Window: []int{64, 64, 64}, Overlap: []float64{0.5}, Blend: window.Gaussian}))(b)
	in := &window.Array{Size: size, Data: values(product(size))}
	out := &window.Array{Size: size, Data: make([]float32, 16*product(size))}
	result := make([]float32, 16*64*64*64)
	b.SetBytes(int64(4 * 16 * 64 * 64 * 64 * p.Windows()))
	for b.Loop() {
		testkit.OK(b, p.Run(b.Context(), 1, in, func(context.Context, []float32, int) ([]float32, error) { return result, nil }, out))
	}
}
