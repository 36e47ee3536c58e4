package spmd_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/host"
	"github.com/pinion-gpu/pinion/step/spmd"
	"github.com/pinion-gpu/pinion/step/train"
)

// perceptron is a step that tells which of two bits are different. With a scaler, it skips
// updates that are not finite.
func perceptron(scaler *train.Scaler) (s train.Step, up, down graph.Value) {
	g := graph.New("perceptron")
	number := func(v float64) graph.Value { n, _ := g.Fill(v, f32()); return n }
	dot := func(x, y graph.Value, i, j int) graph.Value {
		v, _ := g.DotGeneral(x, y, graph.DotAxes{Contracted: [2][]int{{i}, {j}}})
		return v
	}
	x, _ := g.Parameter("bits", f32(4, 2))
	y, _ := g.Parameter("different", f32(4, 1))
	up, _ = g.Parameter("up", f32(2, 4))
	down, _ = g.Parameter("down", f32(4, 1))

	hidden, _ := g.Binary(graph.Max, dot(x, up, 1, 0), number(0))
	off, _ := g.Binary(graph.Sub, dot(hidden, down, 1, 0), y)
	squares, _ := g.Binary(graph.Mul, off, off)
	sum, _ := g.Reduce(graph.ReduceSum, squares)
	loss, _ := g.Binary(graph.Mul, sum, number(1./4))

	s = train.Step{Graph: g, Batch: []graph.Value{x, y}, Loss: loss}
	back, _ := g.Binary(graph.Mul, off, number(2./4))
	if scaler != nil {
		s.Scale, _ = g.Parameter("scale", train.ScalerShape)
		scale, _ := scaler.Scale(g, s.Scale)
		back, _ = g.Binary(graph.Mul, back, scale)
	}
	active, _ := g.Binary(graph.Greater, hidden, number(0))
	through, _ := g.Where(active, dot(back, down, 1, 1), number(0))
	s.Gradients = []graph.Value{dot(x, through, 0, 0), dot(hidden, back, 0, 0)}
	gradients, keep := s.Gradients, func(next, _ graph.Value) graph.Value { return next }
	if scaler != nil {
		unscaled, finite, next, _ := scaler.Unscale(g, s.Scale, gradients...)
		s.State = append(s.State, train.State{Param: s.Scale, Next: next})
		gradients, keep = unscaled, func(next, old graph.Value) graph.Value { v, _ := g.Where(finite, next, old); return v }
	}
	for i, w := range []graph.Value{up, down} {
		change, _ := g.Binary(graph.Mul, gradients[i], number(0.5))
		next, _ := g.Binary(graph.Sub, w, change)
		s.State = append(s.State, train.State{Param: w, Next: keep(next, w)})
	}
	return s, up, down
}

// What perceptrons begin with, and learn.
var (
	bits, different = floats(0, 0, 0, 1, 1, 0, 1, 1), floats(0, 1, 1, 0)
	upAtFirst       = floats(0.6, -0.5, 0.3, 0.8, -0.7, 0.4, 0.5, -0.2)
	downAtFirst     = floats(0.5, 0.7, -0.3, 0.2)
)

// A perceptron whose hidden units two ranks share: the first weight is split by columns, and
// the second by rows, so that the sums of both ranks are the result.
func Example() {
	var devices []device.Device
	for range 2 {
		dev, _ := device.Open("host")
		defer dev.Close()
		devices = append(devices, dev)
	}
	comms, _ := local.New(devices...)
	rank := func(c parallel.Comm) error {
		s, up, down := perceptron(nil)
		p, err := spmd.Partition(&s, c.Size(), c.Rank(), []spmd.Split{{Value: up, Axis: 1}, {Value: down, Axis: 0}})
		if err != nil {
			return err
		}
		exec, err := host.Open(c.Device())
		if err != nil {
			return err
		}
		defer exec.Close()
		r, err := train.Open(*p.Step, exec, train.Options{Compile: step.Options{Ranks: c}})
		if err != nil {
			return err
		}
		defer r.Close()
		for i, data := range [][]byte{upAtFirst, downAtFirst} {
			part, err := spmd.Cut(data, s.State[i].Param.Shape(), p.State[i], c.Size(), c.Rank())
			if err == nil {
				err = r.Put(p.Step.State[i].Param, part)
			}
			if err != nil {
				return err
			}
		}
		var result train.Result
		for range 300 {
			if result, err = r.Run(context.Background(), func(int) ([]*step.Tensor, error) { // the same on all ranks
				x, err := r.Memory().Put(bits, f32(4, 2))
				if err != nil {
					return nil, err
				}
				y, err := r.Memory().Put(different, f32(4, 1))
				return []*step.Tensor{x, y}, err
			}); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Print(&p.Report)
			fmt.Printf("loss: %.4f\n", result.Loss)
		}
		return nil
	}
	var all sync.WaitGroup
	for _, c := range comms {
		all.Go(func() {
			err := rank(c)
			if err != nil {
				for _, c := range comms { // so that nobody waits
					c.Abort(err)
				}
			}
			if err = errors.Join(err, c.Close()); err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()
	// Output:
	// forward: 1 AllReduce, 16 B
	// state of a rank: 24 B of 48 B
	// loss: 0.0000
}
