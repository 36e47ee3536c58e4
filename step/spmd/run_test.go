package spmd_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/spmd"
	"github.com/pinion-gpu/pinion/step/train"
)

func f32(dims ...int) graph.Shape { return graph.MakeShape(dtype.F32, dims...) }

func floats(values ...float32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func numbers(b []byte) []float32 {
	list := make([]float32, len(b)/4)
	for i := range list {
		list[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return list
}

// outcome is what some steps gave: losses, and the state behind the last.
type outcome struct {
	losses []float64
	state  [][]byte
}

// inputs are the data of a step's parameters: of the batch, the same in each step but for
// micro-batches, and of the state at first.
type inputs struct {
	micro [][][]byte // of each micro-batch of a step, each parameter
	state [][]byte
}

// onOne runs steps as they are, on one device.
func onOne(t *testing.T, s *train.Step, in inputs, steps int) outcome {
	t.Helper()
	dev := testkit.Must(device.Open("host:64MiB"))(t)
	defer dev.Close()
	return testkit.Must(run(dev, nil, s, in, steps))(t)
}

// onRanks runs steps that ranks split, and puts together what they have.
func onRanks(t *testing.T, s *train.Step, ranks int, splits []spmd.Split, in inputs, steps int) (outcome, *spmd.Partitioned) {
	t.Helper()
	var devices []device.Device
	for range ranks {
		dev := testkit.Must(device.Open("host:64MiB"))(t)
		defer dev.Close()
		devices = append(devices, dev)
	}
	comms := testkit.Must(local.New(devices...))(t)
	all, parts, errs := make([]outcome, ranks), make([]*spmd.Partitioned, ranks), make([]error, ranks)
	for rank := range ranks {
		parts[rank] = testkit.Must(spmd.Partition(s, ranks, rank, splits))(t)
		testkit.OK(t, alike(graph.Optimize(parts[rank].Step.Graph), graph.Optimize(parts[0].Step.Graph)))
	}
	var together sync.WaitGroup
	for rank, c := range comms {
		together.Go(func() {
			if all[rank], errs[rank] = runRank(c, s, parts[rank], in, steps); errs[rank] != nil {
				for _, c := range comms {
					c.Abort(errs[rank])
				}
			}
			errs[rank] = errors.Join(errs[rank], c.Close())
		})
	}
	together.Wait()
	testkit.OK(t, errors.Join(errs...))
	joined := all[0]
	for i, st := range s.State {
		var list [][]byte
		for rank, o := range all {
			if !slices.Equal(o.losses, all[0].losses) {
				t.Fatalf("rank %d has losses %v, and rank 0 %v", rank, o.losses, all[0].losses)
			}
			list = append(list, o.state[i])
			if parts[0].State[i] == spmd.Whole && !slices.Equal(o.state[i], list[0]) {
				t.Fatalf("ranks 0 and %d differ in state %d, which is whole", rank, i)
			}
		}
		joined.state[i] = testkit.Must(spmd.Join(list, st.Param.Shape(), parts[0].State[i]))(t)
	}
	return joined, parts[0]
}

// alike fails unless graphs differ only in what is sliced: so ranks do the same operations
// together, in the same order.
func alike(a, b *graph.Graph) error {
	if len(a.Nodes()) != len(b.Nodes()) {
		return fmt.Errorf("%d operations on one rank, %d on another", len(a.Nodes()), len(b.Nodes()))
	}
	for i, n := range a.Nodes() {
		m := b.Nodes()[i]
		if n.Op != graph.Slice && n.String() != m.String() || n.Op != m.Op || fmt.Sprint(n.Inputs, n.Shapes) != fmt.Sprint(m.Inputs, m.Shapes) {
			return fmt.Errorf("operation %d is %v on one rank, %v on another", i, n, m)
		}
	}
	return nil
}

// runRank runs a rank's part of steps.
func runRank(c parallel.Comm, s *train.Step, p *spmd.Partitioned, in inputs, steps int) (outcome, error) {
	var own inputs
	for _, batch := range in.micro {
		parts, err := cut(c, batch, s.Batch, p.Batch)
		if err != nil {
			return outcome{}, err
		}
		own.micro = append(own.micro, parts)
	}
	var params []graph.Value
	for _, st := range s.State {
		params = append(params, st.Param)
	}
	var err error
	if own.state, err = cut(c, in.state, params, p.State); err != nil {
		return outcome{}, err
	}
	dev := c.Device()
	if len(p.Report.Collectives) == 0 { // nobody waits for anybody
		c = nil
	}
	return run(dev, c, p.Step, own, steps)
}

// cut is a rank's parts of the data of parameters.
func cut(c parallel.Comm, data [][]byte, params []graph.Value, axes []int) (parts [][]byte, err error) {
	for i, v := range params {
		part, err := spmd.Cut(data[i], v.Shape(), axes[i], c.Size(), c.Rank())
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// run trains some steps.
func run(dev device.Device, ranks parallel.Comm, s *train.Step, in inputs, steps int) (o outcome, err error) {
	exec, err := auto.Open(dev)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, exec.Close()) }()
	r, err := train.Open(*s, exec, train.Options{Accumulate: len(in.micro), Compile: step.Options{Ranks: ranks}})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for i, st := range s.State {
		if err := r.Put(st.Param, in.state[i]); err != nil {
			return o, err
		}
	}
	for range steps {
		result, err := r.Run(context.Background(), func(micro int) (tensors []*step.Tensor, err error) {
			for i, data := range in.micro[micro] {
				tensor, failed := r.Memory().Put(data, s.Batch[i].Shape())
				tensors, err = append(tensors, tensor), errors.Join(err, failed)
			}
			return tensors, err
		})
		if err != nil {
			return o, err
		}
		o.losses = append(o.losses, result.Loss)
	}
	for _, st := range s.State {
		data := make([]byte, st.Param.Shape().Bytes())
		err = errors.Join(err, r.Get(st.Param, data))
		o.state = append(o.state, data)
	}
	return o, err
}
