package spmd_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel/local"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/spmd"
	"github.com/pinion-gpu/pinion/step/train"
)

// What cannot be split is an error that says what, and why not.
func TestErrors(t *testing.T) {
	s, up, down := perceptron(&train.Scaler{})
	other, _, _ := perceptron(nil)
	with := func(change func(s *train.Step)) *train.Step {
		s, _, _ := perceptron(nil)
		change(&s)
		return &s
	}
	split := func(v graph.Value, axis int) []spmd.Split { return []spmd.Split{{Value: v, Axis: axis}} }
	for name, test := range map[string]struct {
		step        *train.Step
		ranks, rank int
		splits      []spmd.Split
		says        string
	}{
		"no ranks":        {&s, 0, 0, nil, "rank 0 of 0"},
		"no such rank":    {&s, 2, 2, nil, "rank 2 of 2"},
		"a negative rank": {&s, 2, -1, nil, "rank -1 of 2"},
		"no step":         {nil, 2, 0, nil, "without a graph"},
		"an empty step":   {&train.Step{}, 2, 0, nil, "without a graph"},
		"no loss":         {with(func(s *train.Step) { s.Loss = graph.Value{} }), 2, 0, nil, "without a loss"},
		"a large loss":    {with(func(s *train.Step) { s.Loss = s.Gradients[0] }), 2, 0, nil, "the loss is f32[2,4], and not one float32"},
		"a foreign loss":  {with(func(s *train.Step) { s.Loss = other.Loss }), 2, 0, nil, "is a result of the step, is not of its graph"},
		"a foreign gradient": {with(func(s *train.Step) { s.Gradients = other.Gradients }), 2, 0, nil,
			"is a result of the step, is not of its graph"},
		"no gradient": {with(func(s *train.Step) { s.Gradients = make([]graph.Value, 1) }), 2, 0, nil, "no value, which is a result of the step, is not of its graph"},
		"a batch that is no parameter": {with(func(s *train.Step) { s.Batch[0] = s.Loss }), 2, 0, nil,
			"is no parameter of the graph, or is there twice"},
		"a parameter twice": {with(func(s *train.Step) { s.Batch[1] = s.Batch[0] }), 2, 0, nil, "is there twice"},
		"a parameter that is missing": {with(func(s *train.Step) { s.Batch = s.Batch[:1] }), 2, 0, nil,
			`parameter "different" is neither batch nor state`},
		"a state of another shape": {with(func(s *train.Step) { s.State[0].Next = s.State[1].Next }), 2, 0, nil,
			`takes the place of parameter "up", and is f32[4,1] instead of f32[2,4]`},
		"a scaler that is no state": {with(func(s *train.Step) { s.Scale = s.Batch[0] }), 2, 0, nil, `the scaler's parameter "bits" is no state`},
		"what ranks do together already": {with(func(s *train.Step) {
			sums, _ := s.Graph.AllReduce(graph.AllReduceOptions{}, s.Gradients[0])
			s.Gradients[0] = sums[0]
		}), 2, 0, nil, `graph "perceptron" has an AllReduce already`},
		"a product":               {&s, 2, 0, split(s.Loss, 0), "split 0 is of %"},
		"no value":                {&s, 2, 0, split(graph.Value{}, 0), "split 0 is of no value, which is no parameter of the step"},
		"another step's":          {&s, 2, 0, append(split(up, 1), split(other.State[0].Param, 1)...), "split 1 is of %"},
		"a parameter split twice": {&s, 2, 0, append(split(up, 1), split(up, spmd.Whole)...), `parameter "up" is split twice`},
		"no such axis":            {&s, 2, 0, split(up, 2), `parameter "up", f32[2,4], has no axis 2`},
		"a negative axis":         {&s, 2, 0, split(up, -2), `parameter "up", f32[2,4], has no axis -2`},
		"a scaler":                {&s, 3, 0, split(s.Scale, 0), `parameter "scale", the state of a scaler, cannot be split`},
		"unequal parts": {&s, 3, 0, split(down, 0),
			`parameter "down", f32[4,1], cannot be split along axis 0: 4 elements are not 3 parts of the same length`},
	} {
		_, err := spmd.Partition(test.step, test.ranks, test.rank, test.splits)
		testkit.WantError(t, name, err, train.ErrArgument, test.says)
	}
}

// A partitioned step is for as many ranks as it was made for, which share nothing beside.
func TestOtherRanks(t *testing.T) {
	s, up, down := perceptron(nil)
	p := testkit.Must(spmd.Partition(&s, 2, 0, []spmd.Split{{Value: up, Axis: 1}, {Value: down, Axis: 0}}))(t)
	var devices []device.Device
	for range 4 {
		dev := testkit.Must(device.Open("host:64MiB"))(t)
		defer dev.Close()
		devices = append(devices, dev)
	}
	exec := testkit.Must(auto.Open(devices[0]))(t)
	defer exec.Close()
	four := testkit.Must(local.New(devices...))(t)[0]
	_, err := train.Open(*p.Step, exec, train.Options{Compile: step.Options{Ranks: four}})
	testkit.WantError(t, "four ranks", err, train.ErrArgument, "is split over 2 ranks, and there are 4")
	_, err = train.Open(*p.Step, exec, train.Options{})
	testkit.WantError(t, "no ranks", err, train.ErrArgument, "Options.Ranks is nil")
	two := testkit.Must(local.New(devices[:2]...))(t)[0]
	_, err = train.Open(*p.Step, exec, train.Options{Share: train.ShareUpdate, Compile: step.Options{Ranks: two}})
	testkit.WantError(t, "sharing", err, train.ErrArgument, `graph "perceptron" together already, and cannot share update beside`)
}

// Losses are scaled by all ranks alike, and an update that is not finite on one is left out
// by all.
func TestScaler(t *testing.T) {
	scaler := &train.Scaler{Initial: train.MostScale}
	large := floats(0, 1e9, 1e9, 0) // which overflow with the first scales
	in := inputs{micro: [][][]byte{{bits, large}}, state: [][]byte{testkit.Must(scaler.State())(t), upAtFirst, downAtFirst}}
	s, up, down := perceptron(scaler)
	want := onOne(t, &s, in, 4)
	got, _ := onRanks(t, &s, 2, []spmd.Split{{Value: up, Axis: 1}, {Value: down, Axis: 0}}, in, 4)
	testkit.OK(t, near(got.losses, want.losses, 1e-5, 0))
	if scale := numbers(want.state[0])[0]; !bytes.Equal(got.state[0], want.state[0]) || scale == train.MostScale || bytes.Equal(want.state[1], upAtFirst) {
		t.Errorf("the scaler is %v on ranks, and %v on one device", numbers(got.state[0]), numbers(want.state[0]))
	}
}

// Data that was cut is put together as it was.
func TestCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		ranks, axis := 1+rng.IntN(4), rng.IntN(4)-1
		dims := []int{rng.IntN(4), rng.IntN(4), rng.IntN(4)}
		if axis != spmd.Whole {
			dims[axis] *= ranks
		}
		s := graph.MakeShape([]dtype.DType{dtype.F32, dtype.BF16, dtype.Bool}[rng.IntN(3)], dims...)
		data, parts := testkit.RandomBytes(int(s.Bytes()), rng.Uint64()), [][]byte(nil)
		for rank := range ranks {
			parts = append(parts, testkit.Must(spmd.Cut(data, s, axis, ranks, rank))(t))
		}
		if joined := testkit.Must(spmd.Join(parts, s, axis))(t); !bytes.Equal(joined, data) {
			t.Fatalf("%v along axis %d of %d ranks is %v, not %v", s, axis, ranks, joined, data)
		}
	}
	second := testkit.Must(spmd.Cut([]byte{1, 2, 3, 4, 5, 6, 7, 8}, graph.MakeShape(dtype.U8, 2, 4), 1, 2, 1))(t)
	if want := []byte{3, 4, 7, 8}; !bytes.Equal(second, want) {
		t.Errorf("the second half of the columns is %v, not %v", second, want)
	}
}

func TestCutErrors(t *testing.T) {
	s := f32(2, 6)
	data := make([]byte, 48)
	cut := func(data []byte, axis, ranks, rank int) error {
		_, err := spmd.Cut(data, s, axis, ranks, rank)
		return err
	}
	join := func(axis int, parts ...[]byte) error { _, err := spmd.Join(parts, s, axis); return err }
	for says, err := range map[string]error{
		"rank 4 of 4":                        cut(data, 1, 4, 4),
		"rank 0 of 0":                        cut(data, 1, 0, 0),
		"47 bytes of f32[2,6], which has 48": cut(data[1:], 1, 2, 0),
		"f32[2,6] cannot be split along axis 2 by 2 ranks":   cut(data, 2, 2, 0),
		"f32[2,6] cannot be split along axis 1 by 4 ranks":   cut(data, 1, 4, 0),
		"f32[2,6] cannot be split along axis -2 by 2 ranks":  join(-2, data[:24], data[:24]),
		"no parts of f32[2,6]":                               join(1),
		"rank 1 of 2 has 20 bytes of f32[2,6] instead of 24": join(1, data[:24], data[:20]),
		"rank 0 of 2 has 24 bytes of f32[2,6] instead of 48": join(spmd.Whole, data[:24], data),
	} {
		testkit.WantError(t, says, err, train.ErrArgument, says)
	}
}
