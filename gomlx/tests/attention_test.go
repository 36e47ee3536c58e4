package tests

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/attention"

	"github.com/pinion-gpu/pinion/gomlx"
)

// Attention as one operation, and its gradients, are what GoMLX makes of several.
func TestAttention(t *testing.T) {
	backend, err := gomlx.New(testDevice())
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Finalize()
	golang, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	defer golang.Finalize()
	for _, layout := range []attention.AxesLayout{attention.LayoutBHSD, attention.LayoutBSHD} {
		for _, causal := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v,causal=%t", layout, causal), func(t *testing.T) {
				got, want := attended(t, backend, layout, causal), attended(t, golang, layout, causal)
				for i := range want {
					for j, w := range want[i] {
						if math.Abs(float64(got[i][j]-w)) > 1e-4*(1+math.Abs(float64(w))) {
							t.Fatalf("output %d, element %d: %v, want %v", i, j, got[i][j], w)
						}
					}
				}
			})
		}
	}
}

// attended is attention with two heads for each of the keys, and its gradients.
func attended(t *testing.T, backend compute.Backend, layout attention.AxesLayout, causal bool) [][]float32 {
	t.Helper()
	const batch, heads, keyHeads, length, each = 2, 4, 2, 9, 8
	shape := func(heads int) shapes.Shape {
		if layout == attention.LayoutBSHD {
			return shapes.Make(dtypes.Float32, batch, length, heads, each)
		}
		return shapes.Make(dtypes.Float32, batch, heads, length, each)
	}
	operand := func(g *Graph, heads int, step float64) *Node {
		x := ConvertDType(Reshape(IotaFull(g, shapes.Make(dtypes.Int32, shape(heads).Size())), shape(heads).Dimensions...), dtypes.Float32)
		return Sin(MulScalar(x, step))
	}
	out, err := ExecOnceN(backend, func(g *Graph) []*Node {
		q, k, v := operand(g, heads, 0.7), operand(g, keyHeads, 1.3), operand(g, keyHeads, 0.9)
		y, _ := attention.Core(q, k, v, layout, attention.CoreOptions{UseCausalMask: causal})
		loss := ReduceAllSum(Mul(y, operand(g, heads, 0.37)))
		return append([]*Node{y}, Gradient(loss, q, k, v)...)
	})
	if err != nil {
		t.Fatalf("%s: %+v", backend.Name(), err)
	}
	var all [][]float32
	for _, x := range out {
		all = append(all, tensors.MustCopyFlatData[float32](x))
	}
	return all
}
