package autocast_test

import (
	"fmt"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/autocast"
)

func ExampleGraph() {
	g := graph.New("layer")
	x, _ := g.Parameter("x", graph.MakeShape(dtype.F32, 4, 8))
	w, _ := g.Parameter("w", graph.MakeShape(dtype.F32, 8, 8))
	axes := graph.DotAxes{Contracted: [2][]int{{1}, {0}}}
	h, _ := g.DotGeneral(x, w, axes)
	h, _ = g.Unary(graph.Tanh, h)
	y, _ := g.DotGeneral(h, w, axes)
	_ = g.SetOutputs(y)
	mixed, err := autocast.Graph(g, dtype.BF16)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(mixed)
	// Output:
	// graph "layer"
	//   %0 = Parameter {Name:x Index:0} : f32[4,8]
	//   %1 = Parameter {Name:w Index:1} : f32[8,8]
	//   %2 = Convert %0 : bf16[4,8]
	//   %3 = Convert %1 : bf16[8,8]
	//   %4 = DotGeneral %2 %3 {Contracted:[[1] [0]] Batch:[[] []] Result:bf16} : bf16[4,8]
	//   %5 = Tanh %4 : bf16[4,8]
	//   %6 = DotGeneral %5 %3 {Contracted:[[1] [0]] Batch:[[] []] Result:f32} : f32[4,8]
	//   return %6
}
