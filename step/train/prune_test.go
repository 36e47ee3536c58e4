package train_test

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/train"
)

// pruner compiles a graph of masks: of magnitudes, if there is a sparsity, and otherwise
// two of four along axis 0.
func pruner(t *testing.T, exec step.Executor, shapes []graph.Shape, bySize bool) func(sparsity float64, weights ...[]byte) [][]byte {
	g := graph.New("masks")
	share := testkit.Must(g.Parameter("sparsity", f32()))(t)
	var masks []graph.Value
	for i, s := range shapes {
		w := testkit.Must(g.Parameter(string(rune('a'+i)), s))(t)
		var mask graph.Value
		if bySize {
			mask = testkit.Must(train.Magnitude(g, w, share))(t)
		} else {
			mask = testkit.Must(train.TwoOfFour(g, w, 0))(t)
		}
		masks = append(masks, mask)
	}
	testkit.OK(t, g.SetOutputs(masks...))
	x := testkit.Must(step.Compile(g, exec, step.Options{}))(t)
	t.Cleanup(func() { testkit.OK(t, x.Close()) })
	return func(sparsity float64, weights ...[]byte) (out [][]byte) {
		in := []*step.Tensor{testkit.Must(x.Memory().Put(floats(float32(sparsity)), f32()))(t)}
		for i, w := range weights {
			in = append(in, testkit.Must(x.Memory().Put(w, shapes[i]))(t))
		}
		for _, m := range testkit.Must(x.Run(context.Background(), in, nil))(t) {
			b := make([]byte, m.Shape().Bytes())
			testkit.OK(t, m.Read(b))
			testkit.OK(t, m.Free())
			out = append(out, b)
		}
		for _, v := range in {
			testkit.OK(t, v.Free())
		}
		return out
	}
}

// Masks are those of sorted magnitudes.
func TestMagnitude(t *testing.T) {
	exec := openExecutor(t)
	rng := rand.New(rand.NewPCG(1, 2))
	shapes := []graph.Shape{f32(7, 9), f32(), f32(40)}
	if onDevice {
		shapes = shapes[:1]
	}
	masks := pruner(t, exec, shapes, true)
	for _, sparsity := range []float64{0, 0.1, 0.5, 0.75, 0.99, 1} {
		var weights [][]byte
		var all [][]float32
		for _, s := range shapes {
			v := make([]float32, s.Size())
			for i := range v {
				v[i] = float32(rng.NormFloat64() * math.Pow(10, rng.Float64()*20-10))
			}
			all, weights = append(all, v), append(weights, floats(v...))
		}
		for i, got := range masks(sparsity, weights...) {
			order := slices.SortedFunc(slices.Values(indices(len(all[i]))), func(a, b int) int {
				return cmp.Compare(math.Abs(float64(all[i][b])), math.Abs(float64(all[i][a])))
			})
			keep := int(math.RoundToEven(float64((1 - float32(sparsity)) * float32(len(order)))))
			for rank, at := range order {
				if (got[at] == 1) != (rank < keep) {
					t.Errorf("sparsity %v, %v: weight %d, of rank %d, stays: %d; %d stay", sparsity, shapes[i], at, rank, got[at], keep)
				}
			}
		}
	}
	// Equal ones stay together.
	if got := pruner(t, exec, []graph.Shape{f32(4)}, true)(0.5, floats(1, -2, 2, 2))[0]; !slices.Equal(got, []byte{0, 1, 1, 1}) {
		t.Errorf("%v", got)
	}
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// Two of each four along the axis stay, and they are the largest.
func TestTwoOfFour(t *testing.T) {
	exec := openExecutor(t)
	got := pruner(t, exec, []graph.Shape{f32(8, 2)}, false)(0, floats(
		1, 0,
		-3, 0,
		2, 0,
		0, 5,

		4, -1,
		4, 1,
		4, 2,
		-4, -2))[0]
	if want := []byte{0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestPruneRefuses(t *testing.T) {
	g := graph.New("refused")
	w := testkit.Must(g.Parameter("w", f32(6, 4)))(t)
	ints := testkit.Must(g.Parameter("i", graph.MakeShape(dtype.I32, 4, 4)))(t)
	for what, mask := range map[string]func() (graph.Value, error){
		"six of four":       func() (graph.Value, error) { return train.TwoOfFour(g, w, 0) },
		"no axis":           func() (graph.Value, error) { return train.TwoOfFour(g, w, 2) },
		"integers":          func() (graph.Value, error) { return train.TwoOfFour(g, ints, 0) },
		"magnitude of ints": func() (graph.Value, error) { return train.Magnitude(g, ints, w) },
		"many sparsities":   func() (graph.Value, error) { return train.Magnitude(g, w, w) },
		"no mask":           func() (graph.Value, error) { return train.Masked(g, w, w) },
	} {
		_, err := mask()
		testkit.WantError(t, what, err, train.ErrArgument)
	}
}

func TestSchedule(t *testing.T) {
	s := train.Schedule{Begin: 10, End: 20, Initial: 0.1, Final: 0.9}
	last := 0.0
	for i := range 30 {
		at := s.At(i)
		if at < last || i <= 10 && at != 0.1 || i >= 20 && at != 0.9 {
			t.Errorf("%v at step %d, %v before", at, i, last)
		}
		last = at
	}
	if got := s.At(15); math.Abs(got-0.8) > 1e-12 {
		t.Errorf("%v half way, want 0.8", got)
	}
}

// A perceptron that tells three arms of a spiral apart does so with few of its weights, and
// with two of each four.
func TestSparseAccuracy(t *testing.T) {
	testkit.OnlyComputes(t)
	exec := openExecutor(t)
	const samples, steps = 240, 300
	x, y := points(samples, 1)
	testX, testY := points(600, 2)
	learn := func(final float64, pairs bool) (accuracy, left float64) {
		n := testkit.Must(build(kind{batch: samples, hidden: 64, rate: 0.01, sparse: true}))(t)
		r := n.open(t, exec, train.Options{})
		schedule := train.Schedule{Begin: 60, End: 220, Final: final}
		// The first matrix has two rows, and is left whole.
		matrices, masks := []graph.Value{n.weights[2], n.weights[4]}, n.masks[1:]
		shapes := []graph.Shape{matrices[0].Shape(), matrices[1].Shape()}
		prune := pruner(t, exec, shapes, !pairs)
		batch := batches(r, x, y, samples)
		for i := range steps {
			if sparsity := schedule.At(i); i%20 == 0 && sparsity > 0 {
				for k, mask := range prune(sparsity, n.get(t, r, matrices[0]), n.get(t, r, matrices[1])) {
					testkit.OK(t, r.Put(masks[k], mask))
				}
			}
			run(t, r, 1, batch)
		}
		stay, all := 0, 0
		for _, m := range masks {
			for _, b := range n.get(t, r, m) {
				stay += int(b)
				all++
			}
		}
		return n.accuracy(t, r, testX, testY), float64(stay) / float64(all)
	}
	dense, left := learn(0, false)
	if dense < 0.9 || left != 1 {
		t.Errorf("dense: %.3f are right, of %.3f of the weights", dense, left)
	}
	pruned, left := learn(0.8, false)
	if pruned < dense-0.08 || math.Abs(left-0.2) > 0.005 {
		t.Errorf("pruned: %.3f are right, of %.3f of the weights; dense: %.3f", pruned, left, dense)
	}
	pairs, share := learn(0.5, true)
	if pairs < dense-0.08 || share != 0.5 {
		t.Errorf("two of four: %.3f are right, of %.3f of the weights; dense: %.3f", pairs, share, dense)
	}
	t.Logf("of %d points that were not trained on, %.1f %% are right with all weights, %.1f %% with %.0f %% of them, and %.1f %% with two of each four", len(testY), 100*dense, 100*pruned, 100*left, 100*pairs)
}
