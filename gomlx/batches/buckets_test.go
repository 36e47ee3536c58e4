package batches_test

import (
	"cmp"
	"errors"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/attention"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/gomlx/batches"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
)

// texts is a dataset whose batches have some lengths. With masked, they have the mask that
// buckets add.
type texts struct {
	lengths []int
	masked  bool
}

func (texts) Name() string { return "texts" }

func (d texts) Iter() iter.Seq2[train.Batch, error] {
	return func(yield func(train.Batch, error) bool) {
		const rows = 4
		for k, n := range d.lengths {
			tokens, next := make([]int32, rows*n), make([]int32, rows*n)
			for i := range tokens {
				tokens[i] = int32((i*i + k) % 17)
				next[i] = int32((i*i + k + 5) % 17)
			}
			b := train.Batch{
				Inputs: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(tokens, rows, n)},
				Labels: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(next, rows, n, 1)},
			}
			if d.masked {
				all := slices.Repeat([]bool{true}, rows*n)
				b.Inputs = append(b.Inputs, tensors.FromFlatDataAndDimensions(all, rows, n))
				b.Labels = append(b.Labels, tensors.FromFlatDataAndDimensions(all, rows, n))
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

// reader is a small transformer that leaves out what a mask says.
func reader(scope *model.Scope, _ any, in []*Node) []*Node {
	scope = scope.WithInitializer(func(g *Graph, s shapes.Shape) *Node {
		x := Reshape(IotaFull(g, shapes.Make(dtypes.Float32, s.Size())), s.Dimensions...)
		return MulScalar(Sin(MulScalar(x, 0.7)), 0.2)
	})
	x := layers.Embedding(scope.In("tokens"), in[0], dtypes.Float32, 17, 16)
	x = Add(x, attention.SelfAttention(scope.In("attention"), x, 2, 8).WithMask(in[1]).WithCausalMask(true).Done())
	return []*Node{layers.Dense(scope.In("out"), x, true, 17)}
}

// Batches of many lengths train as they do without being filled up, by as many steps as
// there are buckets, whose memory is that of the largest.
func TestBuckets(t *testing.T) {
	lengths := []int{3, 20, 7, 8, 11, 20, 5, 16, 2, 13, 19, 4}
	buckets := []int{8, 16, 20}
	run := func(ds train.Dataset) (losses []float64, steps []*step.Executable, stats int64) {
		backend, err := gomlx.Open(gomlx.Options{Device: cmp.Or(os.Getenv("PINION_DEVICE"), "host"), Compile: func(g *graph.Graph, exec step.Executor, o step.Options) (*step.Executable, error) {
			x, err := step.Compile(g, exec, o)
			if err == nil && strings.HasPrefix(g.Name(), "Trainer") {
				steps = append(steps, x)
			}
			return x, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer backend.Finalize()
		trainer := train.NewTrainer(backend, model.NewStore(), reader, loss.SparseCategoricalCrossEntropyLogits, optimizer.Adam().LearningRate(0.01).Done(), nil, nil)
		for b, err := range ds.Iter() {
			if err != nil {
				t.Fatal(err)
			}
			metrics, err := trainer.TrainStep(b)
			if err != nil {
				t.Fatalf("%+v", err)
			}
			losses = append(losses, float64(tensors.ToScalar[float32](metrics[0])))
		}
		return losses, steps, backend.Stats().Allocated.Peak
	}
	want, whole, _ := run(texts{lengths, true})
	ds, err := batches.NewBuckets(texts{lengths, false}, batches.BucketOptions{Lengths: buckets, Labels: []int{0}, MaskLabels: true})
	if err != nil {
		t.Fatal(err)
	}
	got, steps, peak := run(ds)
	if len(whole) != 11 || len(steps) != len(buckets) {
		t.Errorf("%d steps were compiled for %d lengths, and %d for %d buckets", len(whole), len(lengths), len(steps), len(buckets))
	}
	for i, w := range want {
		if math.Abs(got[i]-w) > 1e-4*w {
			t.Errorf("batch %d has a loss of %g, and %g as it is", i, got[i], w)
		}
	}
	var largest, others int64 // what the largest step takes, and what lies between parameters and results of the others
	for _, x := range steps {
		largest = max(largest, x.PeakBytes())
		others += x.Plan().Bytes - x.Plan().Resident
	}
	for _, x := range steps {
		if x.PeakBytes() == largest {
			others -= x.Plan().Bytes - x.Plan().Resident
		}
	}
	t.Logf("the largest step takes %d bytes, the others %d between parameters and results; %d were in use", largest, others, peak)
	if peak >= largest+others {
		t.Errorf("the largest step takes %d bytes, the others %d between parameters and results; %d were in use", largest, others, peak)
	}
	stats := ds.Stats()
	if stats.Batches != len(lengths) || stats.Wanted != 4*128 || stats.Computed != 4*(6*8+3*16+3*20) {
		t.Errorf("%+v", stats)
	}

	for what, o := range map[string]batches.BucketOptions{
		"no lengths":          {},
		"lengths that fall":   {Lengths: []int{4, 2}},
		"a negative input":    {Lengths: []int{4}, Inputs: []int{-1}},
		"the axis of batches": {Lengths: []int{4}, Axis: -1},
	} {
		if _, err := batches.NewBuckets(ds, o); !errors.Is(err, gomlx.ErrArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, o := range map[string]batches.BucketOptions{
		"a batch that is too long": {Lengths: []int{4, 12}},
		"a label that is not":      {Lengths: []int{20}, Labels: []int{1}},
		"an axis that is not":      {Lengths: []int{20}, Axis: 2},
	} {
		ds, err := batches.NewBuckets(texts{lengths, false}, o)
		if err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range ds.Iter() {
			last = err
		}
		if !errors.Is(last, gomlx.ErrArgument) {
			t.Errorf("%s: %v", what, last)
		}
	}
}
