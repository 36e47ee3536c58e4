package pipeline_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/host"
	"github.com/pinion-gpu/pinion/step/pipeline"
	"github.com/pinion-gpu/pinion/step/train"
)

// line is a step that fits y = slope x + height to two points a micro-batch.
func line() (train.Step, [2]graph.Value) {
	const micro = 2
	g := graph.New("line")
	x, _ := g.Parameter("x", f32(micro))
	y, _ := g.Parameter("y", f32(micro))
	slope, _ := g.Parameter("slope", f32())
	height, _ := g.Parameter("height", f32())
	rate, _ := g.Fill(0.1, f32())
	mean, _ := g.Fill(1./micro, f32())

	product, _ := g.Binary(graph.Mul, x, slope)
	guess, _ := g.Binary(graph.Add, product, height)
	off, _ := g.Binary(graph.Sub, guess, y)
	squares, _ := g.Binary(graph.Mul, off, off)
	sum, _ := g.Reduce(graph.ReduceSum, squares)
	loss, _ := g.Binary(graph.Mul, sum, mean)

	s := train.Step{Graph: g, Batch: []graph.Value{x, y}, Loss: loss}
	along, _ := g.Binary(graph.Mul, off, x)
	for i, v := range []graph.Value{along, off} { // half of the gradients
		gradient, _ := g.Reduce(graph.ReduceSum, v)
		gradient, _ = g.Binary(graph.Mul, gradient, mean)
		change, _ := g.Binary(graph.Mul, gradient, rate)
		param := []graph.Value{slope, height}[i]
		next, _ := g.Binary(graph.Sub, param, change)
		s.Gradients = append(s.Gradients, gradient)
		s.State = append(s.State, train.State{Param: param, Next: next})
	}
	return s, [2]graph.Value{slope, height}
}

// A line through points, in two stages on two ranks, with two micro-batches a step.
func Example() {
	var devices []device.Device
	for range 2 {
		dev, _ := device.Open("host")
		defer dev.Close()
		devices = append(devices, dev)
	}
	points := [][2][]float32{{{1, 2}, {4, 7}}, {{3, 0}, {10, 1}}} // on y = 3 x + 1
	rank := func(c parallel.Comm) error {
		exec, err := host.Open(c.Device())
		if err != nil {
			return err
		}
		defer exec.Close()
		s, params := line()
		r, err := pipeline.Open(s, exec, c, pipeline.Options{Micro: 2})
		if err != nil {
			return err
		}
		defer r.Close()
		for _, p := range params {
			if err := r.Put(p, floats(0)); err != nil {
				return err
			}
		}
		for range 200 {
			if _, err := r.Run(context.Background(), func(i int) ([]*step.Tensor, error) {
				px, err := r.Memory().Put(floats(points[i][0]...), f32(2))
				if err != nil {
					return nil, err
				}
				py, err := r.Memory().Put(floats(points[i][1]...), f32(2))
				return []*step.Tensor{px, py}, err
			}); err != nil {
				return err
			}
		}
		slope, height := make([]byte, 4), make([]byte, 4)
		if err := r.Get(params[0], slope); err != nil {
			return err
		}
		if err := r.Get(params[1], height); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Printf("y = %.2f x + %.2f\n", numbers(slope)[0], numbers(height)[0])
		}
		return nil
	}
	comms, _ := local.New(devices...)
	var all sync.WaitGroup
	for _, c := range comms {
		all.Go(func() {
			if err := rank(c); err != nil {
				fmt.Println(err)
				for _, c := range comms { // so that nobody waits
					c.Abort(err)
				}
			}
		})
	}
	all.Wait()
	// Output: y = 3.00 x + 1.00
}

// How long ranks wait, by the number of micro-batches, and with several stages on each.
func ExampleBubble() {
	for _, c := range [][3]int{{4, 1, 8}, {4, 1, 32}, {4, 2, 32}} {
		fmt.Printf("%d ranks with %d stages each, %d micro-batches: %.1f %%\n", c[0], c[1], c[2], 100*pipeline.Bubble(c[0], c[1], c[2]))
	}
	// Output:
	// 4 ranks with 1 stages each, 8 micro-batches: 37.5 %
	// 4 ranks with 1 stages each, 32 micro-batches: 9.4 %
	// 4 ranks with 2 stages each, 32 micro-batches: 4.7 %
}

// One rank's passes.
func ExampleSchedule() {
	schedule, _ := pipeline.Schedule(4, 1, 4, false)
	for _, op := range schedule[2] {
		fmt.Println(op.Kind, op.Micro)
	}
	// Output:
	// forward 0
	// forward 1
	// backward 0
	// forward 2
	// backward 1
	// forward 3
	// backward 2
	// backward 3
}
