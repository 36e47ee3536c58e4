package spmd_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/spmd"
	"github.com/pinion-gpu/pinion/step/train"
)

// stepOf is the training step of a model, which an optimizer updates.
func stepOf(t *testing.T, model interface{ Model() (*models.Model, error) }) *train.Step {
	s := testkit.Must(model.Model())(t).Training()
	return &s
}

func nameOf(p graph.Value) string { return p.Node().Attr.(*graph.Input).Name }

// named are the splits of parameters of the given names in each layer.
func named(s *train.Step, axis int, names ...string) (splits []spmd.Split) {
	for _, st := range s.State {
		if _, kind, _ := strings.Cut(nameOf(st.Param), ": "); slices.Contains(names, kind) {
			splits = append(splits, spmd.Split{Value: st.Param, Axis: axis})
		}
	}
	return splits
}

// start is data that a language model begins with, with batches of so many micro-batches.
func start(s *train.Step, vocabulary, micro int) (in inputs) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range micro {
		var batch [][]byte
		for _, v := range s.Batch {
			var b []byte
			for range v.Shape().Size() {
				b = binary.LittleEndian.AppendUint32(b, rng.Uint32N(uint32(vocabulary)))
			}
			batch = append(batch, b)
		}
		in.micro = append(in.micro, batch)
	}
	for _, st := range s.State {
		name, b := nameOf(st.Param), []byte(nil)
		for range st.Param.Shape().Size() {
			switch {
			case strings.Contains(name, "mean") || name == "steps":
				b = append(b, floats(0)...)
			case strings.Contains(name, "scale"):
				b = append(b, floats(1+0.1*rng.Float32())...)
			default:
				b = append(b, floats(0.2*(rng.Float32()-0.5))...)
			}
		}
		in.state = append(in.state, b)
	}
	return in
}

var small = models.GPT{Layers: 2, Width: 32, Heads: 4, Batch: 2, Length: 8, Vocabulary: 24, Optimizer: models.Adam, LearningRate: 0.01}

func near[T float32 | float64](a, b []T, relative, absolute float64) error {
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		if math.Abs(x-y) > absolute+relative*math.Abs(y) || math.IsNaN(x) {
			return fmt.Errorf("number %d is %v instead of %v", i, x, y)
		}
	}
	return nil
}

// Models that ranks split have the losses and the weights of one device, with one
// micro-batch a step or two.
func TestTransformers(t *testing.T) {
	plain, descent := small, small
	plain.PlainAttention = true
	descent.Optimizer, descent.LearningRate = models.SGD, 0.1
	rows := func(s *train.Step) []spmd.Split {
		return append(models.Megatron(s), spmd.Split{Value: find(s, "tokens' table"), Axis: 0}, spmd.Split{Value: find(s, "head"), Axis: 1})
	}
	for i, test := range []struct {
		name  string
		model interface{ Model() (*models.Model, error) }
		ranks []int
		split func(s *train.Step) []spmd.Split
	}{
		{"by hand", small, []int{1, 2, 4}, models.Megatron},
		{"descent", descent, []int{2, 4}, rows},
		{"what follows", small, []int{2}, func(s *train.Step) []spmd.Split { return named(s, 1, "query", "key", "value", "up") }},
		{"one weight", small, []int{2}, func(s *train.Step) []spmd.Split { return named(s, 0, "query") }},
		{"plain attention", plain, []int{4}, models.Megatron},
		{"head", small, []int{2}, func(s *train.Step) []spmd.Split {
			return append(models.Megatron(s), spmd.Split{Value: find(s, "head"), Axis: 1})
		}},
		{"rows of the vocabulary", small, []int{2, 4}, rows},
		{"width", small, []int{2}, func(s *train.Step) []spmd.Split {
			return append(models.Megatron(s), spmd.Split{Value: find(s, "tokens' table"), Axis: 1})
		}},
		{"batch", small, []int{2}, batch},
		{"batch and weights", small, []int{2}, func(s *train.Step) []spmd.Split { return append(models.Megatron(s), batch(s)...) }},
		{"llama", models.Llama{GPT: small, Hidden: 48}, []int{2}, models.Megatron},
	} {
		micro := 1 + i%2
		t.Run(test.name, func(t *testing.T) {
			s := stepOf(t, test.model)
			in := start(s, small.Vocabulary, micro)
			const steps = 5
			want := onOne(t, s, in, steps)
			for _, ranks := range test.ranks {
				got, p := onRanks(t, s, ranks, test.split(s), in, steps)
				t.Logf("%d ranks:\n%v", ranks, &p.Report)
				if err := near(got.losses, want.losses, 1e-5, 0); err != nil {
					t.Errorf("%d ranks: losses %v, on one device %v: %v", ranks, got.losses, want.losses, err)
				}
				absolute := 1e-5
				if test.model != any(descent) { // Adam makes steps of the same length of gradients that are nearly zero
					absolute = 1e-3
				}
				for i, st := range s.State {
					if err := near(numbers(got.state[i]), numbers(want.state[i]), 1e-5, absolute); err != nil {
						t.Errorf("%d ranks: %s: %v", ranks, nameOf(st.Param), err)
					}
				}
			}
		})
	}
}

// Ranks that split the blocks of a GPT as Megatron-LM does meet twice in each on the way
// forward, and twice on the way back; a table that is split by rows takes one sum more.
func TestMegatron(t *testing.T) {
	for layers := 1; layers <= 3; layers++ {
		model := small
		model.Layers = layers
		s := stepOf(t, model)
		for _, ranks := range []int{2, 4} {
			for rows := range 2 {
				splits := append(models.Megatron(s), []spmd.Split{{Value: find(s, "tokens' table"), Axis: 0}}[:rows]...)
				r := testkit.Must(spmd.Partition(s, ranks, 1, splits))(t).Report
				each := int64(model.Batch * model.Length * model.Width * 4)
				for pass, want := range map[spmd.Pass]int{spmd.Forward: 2*layers + rows, spmd.Backward: 2 * layers} {
					if n, bytes := r.Count(pass, graph.AllReduce); n != want || bytes != int64(n)*each {
						t.Errorf("%d layers on %d ranks: %v has %d sums of %d B together instead of %d of %d B each", layers, ranks, pass, n, bytes, want, each)
					}
				}
				if n := len(r.Collectives); n != 4*layers+rows {
					t.Errorf("%d layers on %d ranks do %d operations together: %v", layers, ranks, n, &r)
				}
			}
		}
	}
}

// Numbers of 16 bits are rounded before ranks add them up.
func TestBF16(t *testing.T) {
	model := small
	model.Type = dtype.BF16
	s := stepOf(t, model)
	in := start(s, small.Vocabulary, 1)
	got, p := onRanks(t, s, 2, models.Megatron(s), in, 5)
	testkit.OK(t, near(got.losses, onOne(t, s, in, 5).losses, 1e-2, 0))
	if _, bytes := p.Report.Count(spmd.Forward, graph.AllReduce); bytes != 4*2*8*32*2 {
		t.Errorf("sums are not of 16 bits: %v", &p.Report)
	}
}

func find(s *train.Step, name string) graph.Value {
	for _, st := range s.State {
		if nameOf(st.Param) == name {
			return st.Param
		}
	}
	return graph.Value{}
}

// batch splits the batch, as data parallelism does.
func batch(s *train.Step) []spmd.Split {
	return []spmd.Split{{Value: s.Batch[0], Axis: 0}, {Value: s.Batch[1], Axis: 0}}
}
