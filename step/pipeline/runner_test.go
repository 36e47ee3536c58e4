package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/host"
	"github.com/pinion-gpu/pinion/step/pipeline"
	"github.com/pinion-gpu/pinion/step/train"
)

// outcome is what a training came to.
type outcome struct {
	losses []float64
	state  [][]byte
}

// runner is what a step runs on: one device, or stages.
type runner interface {
	Put(param graph.Value, data []byte) error
	Get(param graph.Value, data []byte) error
	Run(ctx context.Context, batch func(micro int) ([]*step.Tensor, error)) (train.Result, error)
	Memory() *step.Memory
}

// steps runs some steps of a net.
func (n *network) steps(r runner, steps int) (o outcome, err error) {
	for _, s := range n.State {
		if err := r.Put(s.Param, n.initial[s.Param]); err != nil {
			return o, err
		}
	}
	for i := range steps {
		result, err := r.Run(context.Background(), func(micro int) ([]*step.Tensor, error) { return n.tensors(r, i, micro) })
		if err != nil {
			return o, err
		}
		o.losses = append(o.losses, result.Loss)
	}
	for _, s := range n.State {
		b := make([]byte, s.Param.Shape().Bytes())
		if err := r.Get(s.Param, b); err != nil {
			return o, err
		}
		o.state = append(o.state, b)
	}
	return o, nil
}

func (n *network) tensors(r runner, i, micro int) (list []*step.Tensor, err error) {
	for k, data := range n.data(i, micro) {
		t, err := r.Memory().Put(data, n.Batch[k].Shape())
		if err != nil {
			return list, err
		}
		list = append(list, t)
	}
	return list, nil
}

// alone is what a net comes to on one device.
func (n *network) alone(t *testing.T, micro, steps int) outcome {
	dev := testkit.Must(device.Open("host:64MiB"))(t)
	defer dev.Close()
	exec := testkit.Must(host.Open(dev))(t)
	defer exec.Close()
	r := testkit.Must(train.Open(n.Step, exec, train.Options{Accumulate: micro}))(t)
	defer r.Close()
	return testkit.Must(n.steps(r, steps))(t)
}

// together calls fn on each of some ranks. When one fails, the others are told. Nothing may
// be left on the devices.
func together(t *testing.T, size int, fn func(c parallel.Comm, exec step.Executor) error) []error {
	var devices []device.Device
	for range size {
		dev := testkit.Must(device.Open("host:64MiB"))(t)
		defer dev.Close()
		devices = append(devices, dev)
	}
	comms, errs := testkit.Must(local.New(devices...))(t), make([]error, size)
	var all sync.WaitGroup
	for rank, c := range comms {
		all.Go(func() {
			before, err := c.Device().Memory()
			exec, err2 := host.Open(c.Device())
			if errs[rank] = errors.Join(err, err2); errs[rank] != nil {
				return
			}
			errs[rank] = errors.Join(fn(c, exec), exec.Close())
			if errs[rank] != nil {
				for _, c := range comms {
					c.Abort(fmt.Errorf("rank %d: %w", rank, errs[rank]))
				}
			}
			if now, err := c.Device().Memory(); err != nil || now.FreeBytes != before.FreeBytes {
				t.Errorf("rank %d of %d: %d bytes are left on the device, %v", rank, size, before.FreeBytes-now.FreeBytes, err)
			}
		})
	}
	all.Wait()
	for rank, c := range comms {
		if err := c.Close(); err != nil && errs[rank] == nil {
			t.Error(err)
		}
	}
	return errs
}

// staged is what a net comes to in stages, on each rank.
func (n *network) staged(t *testing.T, size, steps int, o pipeline.Options) ([]outcome, error) {
	all := make([]outcome, size)
	errs := together(t, size, func(c parallel.Comm, exec step.Executor) error {
		r, err := pipeline.Open(n.Step, exec, c, o)
		if err != nil {
			return err
		}
		all[c.Rank()], err = n.steps(r, steps)
		return errors.Join(err, r.Close())
	})
	return all, errors.Join(errs...)
}

// same fails unless ranks have what one device has.
func same(t *testing.T, what string, n *network, got []outcome, want outcome) {
	t.Helper()
	for rank, o := range got {
		for i, loss := range o.losses {
			if loss != want.losses[i] {
				t.Errorf("%s: rank %d: loss of step %d is %v, on one device %v", what, rank, i, loss, want.losses[i])
			}
		}
		for i, b := range o.state {
			if !bytes.Equal(b, want.state[i]) {
				t.Errorf("%s: rank %d: state %d, %v, is off by %v", what, rank, i, n.State[i].Param.Shape(), distance(b, want.state[i]))
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

func distance(a, b []byte) (most float64) {
	y := numbers(b)
	for i, x := range numbers(a) {
		most = max(most, math.Abs(float64(x-y[i])))
	}
	return most
}

// Random nets in any number of stages come to what one device comes to, with the same bits.
func TestRandom(t *testing.T) {
	testkit.NoLeaks(t)
	seeds := uint64(16)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		n := randomNet(seed, traits{layers: 3 + int(seed%5), rows: 4, width: 5, tied: seed%2 == 1, drop: seed%3 == 1, norms: seed%4 == 2, clipped: seed%5 == 3})
		for _, c := range [][3]int{{1, 1, 1}, {1, 3, 2}, {2, 1, 3}, {2, 3, 4}, {3, 1, 2}, {3, 2, 3}, {4, 1, 6}, {5, 2, 5}} {
			what := fmt.Sprintf("seed %d on %d ranks with %d stages, %d micro-batches", seed, c[0], c[1], c[2])
			got, err := n.staged(t, c[0], 3, pipeline.Options{Micro: c[2], Chunks: c[1]})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			same(t, what, n, got, n.alone(t, c[2], 3))
		}
	}
}
