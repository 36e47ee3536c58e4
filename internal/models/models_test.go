package models

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
	"github.com/pinion-gpu/pinion/step/host"
)

// tiny are small instances of all models that are trained.
func tiny(t dtype.DType, o Optimizer, rate float64) map[string]func() (*Model, error) {
	gpt := GPT{Layers: 2, Width: 8, Heads: 2, Batch: 2, Length: 5, Vocabulary: 7, Type: t, Optimizer: o, LearningRate: rate}
	plain := gpt
	plain.PlainAttention = true
	return map[string]func() (*Model, error){
		"GPT":    gpt.Model,
		"plain":  plain.Model,
		"Llama":  Llama{GPT: gpt, Hidden: 12}.Model,
		"ResNet": ResNet{Blocks: []int{1, 2}, Width: 3, Batch: 3, Size: 13, Classes: 4, Type: t, Optimizer: o, LearningRate: rate}.Model,
	}
}

// runner is a model on a device.
type runner struct {
	t  testing.TB
	m  *Model
	x  *step.Executable
	in []*step.Tensor
}

func start(t testing.TB, exec step.Executor, m *Model) *runner {
	t.Helper()
	x := testkit.Must(step.Compile(m.Graph, exec, step.Options{Donate: m.Donate, Lend: m.Lend}))(t)
	in := testkit.Must(m.Start(context.Background(), exec, x.Memory(), 3))(t)
	r := &runner{t, m, x, in}
	t.Cleanup(func() {
		for _, v := range in {
			testkit.OK(t, v.Free())
		}
		testkit.OK(t, x.Close())
	})
	return r
}

// run runs a step, and returns the loss and its results as bytes.
func (r *runner) run() (loss float64, results [][]byte) {
	r.t.Helper()
	out := testkit.Must(r.m.Step(context.Background(), r.x, r.in))(r.t)
	for _, v := range out {
		data := make([]byte, v.Shape().Bytes())
		testkit.OK(r.t, v.Read(data))
		results = append(results, data)
	}
	loss = testkit.Must(r.m.Loss(out))(r.t)
	testkit.OK(r.t, r.m.Free(out))
	return loss, results
}

func (r *runner) nudge(parameter, element int, by float64) {
	v := r.in[parameter]
	data := make([]byte, v.Shape().Bytes())
	testkit.OK(r.t, v.Read(data))
	at := data[8*element:]
	binary.LittleEndian.PutUint64(at, math.Float64bits(math.Float64frombits(binary.LittleEndian.Uint64(at))+by))
	testkit.OK(r.t, v.Write(data))
}

// Gradients are what the loss changes by.
func TestGradients(t *testing.T) {
	testkit.OnlyComputes(t)
	dev := testkit.Must(device.Open("host"))(t)
	defer dev.Close()
	exec := testkit.Must(host.Open(dev))(t)
	defer exec.Close()
	for name, model := range tiny(dtype.F64, None, 0) {
		t.Run(name, func(t *testing.T) {
			r := start(t, exec, testkit.Must(model())(t))
			_, results := r.run()
			rng := rand.New(rand.NewPCG(1, 1))
			at := 0
			for p, v := range r.m.Graph.Parameters() {
				if p == 0 || v.Shape().Type != dtype.F64 || r.m.Next[p] >= 0 {
					continue // no weight
				}
				at++
				for range 4 {
					e := rng.IntN(v.Shape().Size())
					got := math.Float64frombits(binary.LittleEndian.Uint64(results[at][8*e:]))
					const by = 1e-5
					r.nudge(p, e, by)
					above, _ := r.run()
					r.nudge(p, e, -2*by)
					below, _ := r.run()
					r.nudge(p, e, by)
					if want := (above - below) / (2 * by); math.Abs(got-want) > 1e-6+1e-4*math.Abs(want) {
						t.Errorf("%v, element %d: the gradient is %g, the slope %g", v.Node().Attr, e, got, want)
					}
				}
			}
			if at < 20 {
				t.Errorf("%d weights", at)
			}
		})
	}
}

// The loss falls, in all types, and the results of a seed are the same each time.
func TestTraining(t *testing.T) {
	dev := devicetest.Open(t)
	exec := testkit.Must(auto.Open(dev))(t)
	defer exec.Close()
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16} {
		for _, o := range []Optimizer{SGD, Adam} {
			if (os.Getenv("PINION_DEVICE") != "" || testing.Short()) && (d != dtype.BF16 || o != Adam) {
				continue // kernels are compiled for each
			}
			rate := map[Optimizer]float64{SGD: 0.05, Adam: 0.003}[o]
			for name, model := range tiny(d, o, rate) {
				t.Run(fmt.Sprint(name, " ", d, " ", o), func(t *testing.T) {
					r := start(t, exec, testkit.Must(model())(t))
					digest := testkit.Must(OpenDigest(exec, nil, shapes(r.m.Graph.Parameters())))(t)
					defer digest.Close()
					first, _ := r.run()
					if vocabulary := 7.0; name != "ResNet" && math.Abs(first-math.Log(vocabulary)) > 0.5 {
						t.Errorf("it begins with a loss of %v", first)
					}
					var last float64
					for range 30 {
						last, _ = r.run()
					}
					if !(last < 0.8*first) {
						t.Errorf("the loss went from %v to %v", first, last)
					}
					again := start(t, exec, r.m)
					for range 31 {
						again.run()
					}
					a, b := testkit.Must(digest.Sum(context.Background(), r.in))(t), testkit.Must(digest.Sum(context.Background(), again.in))(t)
					if a != b {
						t.Errorf("parameters are %x, and %x the second time", a, b)
					}
					again.run()
					if b := testkit.Must(digest.Sum(context.Background(), again.in))(t); a == b {
						t.Errorf("a step changed nothing: %x", b)
					}
				})
			}
		}
	}
}

func shapes(values []graph.Value) (list []graph.Shape) {
	for _, v := range values {
		list = append(list, v.Shape())
	}
	return list
}

// A digest is another one if a bit anywhere is another one.
func TestDigest(t *testing.T) {
	exec := testkit.Must(auto.Open(devicetest.Open(t)))(t)
	defer exec.Close()
	memory := testkit.Must(step.OpenMemory(exec.Device(), nil))(t)
	defer memory.Close()
	var list []graph.Shape
	for _, d := range []dtype.DType{dtype.Bool, dtype.I8, dtype.BF16, dtype.F32, dtype.F64, dtype.U32} {
		list = append(list, graph.MakeShape(d, 3, 5), graph.MakeShape(d), graph.MakeShape(d, 0))
	}
	digest := testkit.Must(OpenDigest(exec, memory, list))(t)
	defer digest.Close()
	in := make([]*step.Tensor, len(list))
	data := make([][]byte, len(list))
	for i, s := range list {
		data[i] = make([]byte, s.Bytes())
		in[i] = testkit.Must(memory.Put(data[i], s))(t)
		defer in[i].Free()
	}
	sum := func() uint64 { return testkit.Must(digest.Sum(context.Background(), in))(t) }
	seen := map[uint64]bool{sum(): true}
	for i, d := range data {
		for _, at := range []int{0, len(d) / 2, len(d) - 1} {
			if len(d) == 0 {
				continue
			}
			d[at] ^= 1
			testkit.OK(t, in[i].Write(d))
			if s := sum(); seen[s] {
				t.Errorf("%v with byte %d changed has the digest %x, too", list[i], at, s)
			} else {
				seen[s] = true
			}
			d[at] ^= 1
			testkit.OK(t, in[i].Write(d))
			if at == len(d)-1 {
				break
			}
		}
	}
	_, err := OpenDigest(exec, memory, nil)
	testkit.WantError(t, "no tensors", err, errs.ErrArgument)
}

// Sizes are those of the models that they are named for.
func TestSizes(t *testing.T) {
	for name, c := range map[string]struct {
		model   func() (*Model, error)
		weights int64
	}{
		"GPT":       {GPT{Layers: 24, Width: 2048, Heads: 16, Batch: 16, Length: 1024, Vocabulary: 32768, Type: dtype.BF16}.Model, 1_344_720_896},
		"ResNet-50": {ResNet{Batch: 64, Type: dtype.BF16}.Model, 25_557_032},
		"GPT-2":     {GPT2{}.Model, 124_439_808},
	} {
		m := testkit.Must(c.model())(t)
		if m.Weights != c.weights {
			t.Errorf("%s has %d weights, not %d", name, m.Weights, c.weights)
		}
	}
}

func TestRefusals(t *testing.T) {
	for what, model := range map[string]func() (*Model, error){
		"no sizes":            GPT{}.Model,
		"heads of a fraction": GPT{Layers: 1, Width: 7, Heads: 2, Batch: 1, Length: 1, Vocabulary: 2}.Model,
		"odd heads":           Llama{GPT: GPT{Layers: 1, Width: 6, Heads: 2, Batch: 1, Length: 1, Vocabulary: 2}}.Model,
		"no images":           ResNet{}.Model,
		"integers":            GPT2{Type: dtype.I32}.Model,
		"a negative length":   GPT2{Length: -1}.Model,
		"an optimizer":        GPT{Layers: 1, Width: 2, Heads: 1, Batch: 1, Length: 1, Vocabulary: 2, Optimizer: 9}.Model,
	} {
		_, err := model()
		testkit.WantError(t, what, err, errs.ErrArgument)
	}
}
