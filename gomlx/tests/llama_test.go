package tests

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/layers/attention"
	"github.com/gomlx/gomlx/ml/layers/norm"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/plan"
)

// llama is a model in the manner of Llama: RMS normalisation, rotary positions, gated
// feed-forward parts, no biases, one table for tokens in and out.
type llama struct{ vocabulary, layers, width, heads, forward, batch, length int }

// full has 110 million parameters; a step has 8192 tokens.
var full = llama{vocabulary: 32000, layers: 12, width: 768, heads: 12, forward: 2048, batch: 8, length: 1024}

func (l llama) logits(scope *model.Scope, tokens *Node) *Node {
	g := tokens.Graph()
	table := scope.In("tokens").VariableWithShape("embeddings", shapes.Make(dtypes.Float32, l.vocabulary, l.width)).NodeValue(g)
	x := Gather(table, ExpandAxes(tokens, -1))
	for i := range l.layers {
		layer := scope.In("layer_%d", i)
		y := norm.RMSNorm(layer.In("attention_norm"), x).Done()
		x = Add(x, attention.SelfAttention(layer.In("attention"), y, l.heads, l.width/l.heads).WithRoPE(10000).WithCausalMask(true).UseProjectionBias(false).Done())
		y = norm.RMSNorm(layer.In("forward_norm"), x).Done()
		gate := activation.Swish(layers.Dense(layer.In("gate"), y, false, l.forward))
		x = Add(x, layers.Dense(layer.In("down"), Mul(gate, layers.Dense(layer.In("up"), y, false, l.forward)), false, l.width))
	}
	x = norm.RMSNorm(scope.In("norm"), x).Done()
	return Einsum("bsw,vw->bsv", x, table)
}

// train trains some steps with Adam on a backend and returns the losses.
func (l llama) train(o gomlx.Options, steps int) (losses []float64, backend *gomlx.Backend, err error) {
	if backend, err = gomlx.Open(o); err != nil {
		return nil, nil, err
	}
	losses, err = l.trainOn(backend, 1, steps)
	return losses, backend, err
}

// trainOn trains some steps of as many micro-batches, each l.batch of the rows that there
// are, in turn, and returns the losses of all micro-batches.
func (l llama) trainOn(backend compute.Backend, accumulate, steps int) (losses []float64, err error) {
	store := model.NewStore()
	store.SetParam(model.ParamInitialSeed, int64(1))
	modelFn := func(scope *model.Scope, x *Node) *Node {
		return l.logits(scope.WithInitializer(func(g *Graph, shape shapes.Shape) *Node {
			return MulScalar(store.RandomNormal(g, shape), 0.02)
		}), x)
	}
	trainer := train.NewTrainer(backend, store, modelFn, loss.SparseCategoricalCrossEntropyLogits, optimizer.Adam().LearningRate(0.001).Done(), nil, nil)
	if accumulate > 1 {
		if err := trainer.AccumulateGradients(accumulate); err != nil {
			return nil, err
		}
	}
	for run := range steps * accumulate {
		tokens := make([]int32, l.batch*l.length)
		next := make([]int32, l.batch*l.length)
		for i := range tokens {
			n := run%accumulate*len(tokens) + i
			tokens[i] = int32(n * n % l.vocabulary)
			next[i] = int32((n + 1) * (n + 1) % l.vocabulary)
		}
		metrics, err := trainer.TrainStep(train.Batch{
			Inputs: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(tokens, l.batch, l.length)},
			Labels: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(next, l.batch, l.length, 1)},
		})
		if err != nil {
			return losses, err
		}
		losses = append(losses, float64(tensors.ToScalar[float32](metrics[0])))
	}
	return losses, nil
}

// errPlanned ends a compilation behind the plan.
var errPlanned = errors.New("planned")

// plan plans a step within a budget, and runs nothing. 0 is no budget.
func (l llama) plan(t *testing.T, config string, budget int64) (p *plan.Plan, parameters int64) {
	t.Helper()
	o, err := gomlx.ParseConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	o.Device, o.Budget = testDevice(), budget
	o.Compile = func(g *graph.Graph, exec step.Executor, o step.Options) (x *step.Executable, err error) {
		for _, v := range g.Parameters() {
			if v.Shape().Rank() > 0 {
				parameters += int64(v.Shape().Size())
			}
		}
		if p, err = step.Plan(g, exec, o); err == nil {
			err = errPlanned
		}
		return nil, err
	}
	_, backend, err := l.train(o, 1)
	if backend != nil {
		defer backend.Finalize()
	}
	if !errors.Is(err, errPlanned) {
		t.Fatalf("within %d bytes: %v", budget, err)
	}
	return p, parameters
}

// A step of 110 million parameters and 8192 tokens fits into 8 GiB, and into two thirds of
// what it takes if everything is kept.
func TestLlamaFits(t *testing.T) {
	for _, config := range []string{"", "amp=bf16"} {
		free, n := full.plan(t, config, 0)
		if n < 3*109e6 || n > 3*111e6 {
			t.Errorf("there are %d parameters and moments", n)
		}
		budget := min(8<<30, free.Bytes*2/3)
		tight, _ := full.plan(t, config, budget)
		t.Logf("%q, no budget: %v", config, free)
		t.Logf("%q, %d bytes: %v", config, budget, tight)
		if tight.Bytes > budget || len(tight.Runs) <= len(free.Runs) {
			t.Errorf("%q: %d bytes, %d within a budget of %d, by %d runs of %d tasks", config, free.Bytes, tight.Bytes, budget, len(tight.Runs), len(free.Runs))
		}
	}
}

// A small one has the same losses with the least memory that a plan is found for.
func TestLlamaTrains(t *testing.T) {
	small := llama{vocabulary: 300, layers: 2, width: 32, heads: 4, forward: 88, batch: 4, length: 32}
	var all [][]float64
	var least, peak int64
	for range 2 {
		o := gomlx.Options{Device: testDevice(), Budget: least, Compile: func(g *graph.Graph, exec step.Executor, o step.Options) (*step.Executable, error) {
			x, err := step.Compile(g, exec, o)
			if err == nil && x.PeakBytes() > peak {
				peak, least = x.PeakBytes(), leastBudget(g, exec, o)
			}
			return x, err
		}}
		losses, backend, err := small.train(o, 6)
		if err != nil {
			t.Fatal(err)
		}
		backend.Finalize()
		all = append(all, losses)
	}
	if least == 0 || least >= peak {
		t.Errorf("the least budget is %d bytes, and all take %d", least, peak)
	}
	if !slices.Equal(all[0], all[1]) {
		t.Errorf("the losses are %v, and %v without a budget", all[1], all[0])
	}
	if first, last := all[0][0], all[0][5]; !(last < 0.95*first) {
		t.Errorf("the losses are %v", all[0])
	}
}

// The full size takes minutes a step on a processor. The memory of a device of 8 GiB has
// room for more than the step: what initialises variables, and the pool's spare chunks.
func TestLlamaOnGPU(t *testing.T) {
	if strings.HasPrefix(testDevice(), "host") {
		t.Skip("PINION_DEVICE names no GPU")
	}
	for _, config := range []string{"", "amp=bf16"} {
		o, err := gomlx.ParseConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		o.Device, o.Budget = testDevice(), 7<<30
		start := time.Now()
		losses, backend, err := full.train(o, 4)
		if err != nil {
			t.Fatal(err)
		}
		peak := backend.Stats().Reserved.Peak
		backend.Finalize()
		t.Logf("%q: losses %.4f, at most %d bytes in %v", config, losses, peak, time.Since(start))
		if peak > 8<<30 {
			t.Errorf("%q: %d bytes were taken", config, peak)
		}
		for _, l := range losses {
			if !(l < 1.1*math.Log(float64(full.vocabulary))) {
				t.Errorf("%q: the losses are %v", config, losses)
			}
		}
	}
}
