package batches

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

const samples, features, batch, epochs = 256, 128, 32, 3

// counter counts copies of the size of a batch on all streams of a device.
type counter struct {
	device.Wrapper
	up, inside atomic.Int64
}

func (c *counter) NewStream() (device.Stream, error) {
	s, err := c.Wrapper.NewStream()
	return &counted{device.StreamWrapper{Stream: s}, c}, err
}

type counted struct {
	device.StreamWrapper
	of *counter
}

func (s *counted) CopyH2D(dst device.Ptr, src []byte) error {
	if len(src) >= batch*features*4 {
		s.of.up.Add(1)
	}
	return s.Stream.CopyH2D(dst, src)
}

func (s *counted) CopyD2D(dst, src device.Ptr, n int64) error {
	if n >= batch*features*4 {
		s.of.inside.Add(1)
	}
	return s.Stream.CopyD2D(dst, src, n)
}

func TestTraining(t *testing.T) {
	inner, err := host.Open(1 << 30)
	testkit.OK(t, err)
	defer inner.Close()
	dev := &counter{Wrapper: device.Wrapper{Device: inner}}
	backend, err := gomlx.Open(gomlx.Options{On: dev})
	testkit.OK(t, err)
	defer backend.Finalize()

	data := make([]float32, samples*features)
	labels := make([]int32, samples)
	for i := range data {
		data[i] = float32(i*i%31)/31 - float32(i/features%4)
	}
	for i := range labels {
		labels[i] = int32(i % 4)
	}
	ds, err := dataset.NewMemoryOf(data, []int{features}, dataset.MemoryOptions{Labels: labels})
	testkit.OK(t, err)
	ld, err := loader.New(dev, ds, loader.Options{Batch: batch, Epochs: epochs, Shuffle: true})
	testkit.OK(t, err)
	defer ld.Close()
	set, err := New(backend, ld, Options{})
	testkit.OK(t, err)

	store := model.NewStore()
	store.SetParam(model.ParamInitialSeed, int64(1)) // else weights begin differently each time
	trainer := train.NewTrainer(backend, store, func(scope *model.Scope, x *graph.Node) *graph.Node {
		return layers.Dense(scope.In("out"), x, true, 4)
	}, loss.SparseCategoricalCrossEntropyLogits, optimizer.Adam().LearningRate(0.01).Done(), nil, nil)
	// More batches than the loader has memory for: each has to go back.
	steps := 0
	var losses []float64
	for range epochs {
		for b, err := range set.Iter() {
			testkit.OK(t, err)
			metrics, err := trainer.TrainStep(b)
			testkit.OK(t, err)
			losses = append(losses, float64(metrics[0].Value().(float32)))
			steps++
		}
	}
	if want := epochs * samples / batch; steps != want {
		t.Errorf("%d steps, want %d", steps, want)
	}
	if up := dev.up.Load(); up != int64(steps) {
		t.Errorf("%d batches went up in %d copies", steps, up)
	}
	if n := dev.inside.Load(); n != 0 {
		t.Errorf("batches were copied %d times inside the device", n)
	}
	if first, last := losses[0], losses[len(losses)-1]; !(last < first) {
		t.Errorf("the loss was %g and is %g", first, last)
	}
}

func TestAnotherDevice(t *testing.T) {
	backend, err := gomlx.New("host")
	testkit.OK(t, err)
	defer backend.Finalize()
	other, err := host.Open(1 << 30)
	testkit.OK(t, err)
	defer other.Close()
	ds, err := dataset.NewMemoryOf([]float32{1, 2, 3, 4}, []int{2}, dataset.MemoryOptions{})
	testkit.OK(t, err)
	ld, err := loader.New(other, ds, loader.Options{Batch: 1})
	testkit.OK(t, err)
	defer ld.Close()
	_, err = New(backend, ld, Options{})
	testkit.WantError(t, "another device", err, gomlx.ErrArgument, "host")
}

func TestContextEndsIteration(t *testing.T) {
	backend, err := gomlx.New("host")
	testkit.OK(t, err)
	defer backend.Finalize()
	ds, err := dataset.NewMemoryOf([]float32{1, 2, 3, 4}, []int{2}, dataset.MemoryOptions{})
	testkit.OK(t, err)
	ld, err := loader.New(backend.Device(), ds, loader.Options{Batch: 1})
	testkit.OK(t, err)
	defer ld.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	set, err := New(backend, ld, Options{Context: ctx, NoLabels: true})
	testkit.OK(t, err)
	n := 0
	for _, err := range set.Iter() {
		n++
		testkit.WantError(t, "a context that ended", err, context.Canceled)
	}
	if n != 1 {
		t.Errorf("%d batches", n)
	}
}
