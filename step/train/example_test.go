package train_test

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/host"
	"github.com/pinion-gpu/pinion/step/train"
)

// A line through points, by gradient descent on two micro-batches a step.
func Example() {
	dev, _ := device.Open("host")
	defer dev.Close()
	exec, _ := host.Open(dev)
	defer exec.Close()

	const micro = 2
	g := graph.New("line")
	x, _ := g.Parameter("x", f32(micro))
	y, _ := g.Parameter("y", f32(micro))
	slope, _ := g.Parameter("slope", f32())
	guess, _ := g.Binary(graph.Mul, x, slope)
	off, _ := g.Binary(graph.Sub, guess, y)
	mean, _ := g.Fill(1./micro, f32())
	squares, _ := g.Binary(graph.Mul, off, off)
	loss, _ := g.Reduce(graph.ReduceSum, squares)
	loss, _ = g.Binary(graph.Mul, loss, mean)
	gradient, _ := g.Binary(graph.Mul, off, x)
	gradient, _ = g.Reduce(graph.ReduceSum, gradient)
	gradient, _ = g.Binary(graph.Mul, gradient, mean) // half of that of the loss
	rate, _ := g.Fill(0.1, f32())
	change, _ := g.Binary(graph.Mul, gradient, rate)
	next, _ := g.Binary(graph.Sub, slope, change)

	r, err := train.Open(train.Step{
		Graph:     g,
		Batch:     []graph.Value{x, y},
		State:     []train.State{{Param: slope, Next: next}},
		Loss:      loss,
		Gradients: []graph.Value{gradient},
	}, exec, train.Options{Accumulate: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	_ = r.Put(slope, floats(0))
	points := [][2][]float32{{{1, 2}, {3, 6}}, {{3, 0}, {9, 0}}} // on y = 3 x
	for range 40 {
		_, err := r.Run(context.Background(), func(i int) ([]*step.Tensor, error) {
			px, err := r.Memory().Put(floats(points[i][0]...), f32(micro))
			if err != nil {
				return nil, err
			}
			py, err := r.Memory().Put(floats(points[i][1]...), f32(micro))
			return []*step.Tensor{px, py}, err
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	data := make([]byte, 4)
	_ = r.Get(slope, data)
	fmt.Printf("%.3f\n", numbers(data)[0])
	// Output: 3.000
}
