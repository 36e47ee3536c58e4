package ranks_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/gomlx/ranks"
	"github.com/pinion-gpu/pinion/parallel"
)

// Ranks that average gradients in 16 bits train nearly as those that average them in their
// own type, and have the same weights.
func TestAverage(t *testing.T) {
	const size, steps = 3, 8
	for name, wrap := range map[string]func(optimizer.Interface) (*ranks.Optimizer, error){"whole": ranks.New, "shared": ranks.Share} {
		t.Run(name, func(t *testing.T) {
			run := func(average dtype.DType) (weights [size]map[string][]float32) {
				together(t, size, func(comm parallel.Comm) error {
					r, err := newTrainedBy(gomlx.Options{Average: average}, comm, must(wrap(inners()["SGD"]())))
					if err != nil {
						return err
					}
					defer r.backend.Finalize()
					if err := r.steps(0, steps); err != nil {
						return err
					}
					weights[comm.Rank()], err = r.values("/weights")
					return err
				})
				for path, w := range weights[0] {
					for rank := range size {
						if !slices.Equal(w, weights[rank][path]) {
							t.Errorf("%v: rank %d: %s is not that of rank 0", average, rank, path)
						}
					}
				}
				return weights
			}
			want := run(0)[0]
			for average, tolerance := range map[dtype.DType]float64{dtype.F32: 0, dtype.F16: 1e-4, dtype.BF16: 1e-3} {
				got := run(average)[0]
				if len(got) != len(want) || len(got) != 4 {
					t.Fatalf("%v: %d weights, want %d", average, len(got), len(want))
				}
				for path, w := range want {
					off := slices.Max(diff(got[path], w))
					t.Logf("%v: %s is off by %.2g", average, path, off)
					if far(got[path], w, tolerance) {
						t.Errorf("%v: %s is off by %g", average, path, off)
					}
					if tolerance > 0 && off == 0 {
						t.Errorf("%v: %s is as if it were averaged in float32", average, path)
					}
				}
			}
		})
	}
}

// Only gradients are averaged in another type: other means keep theirs.
func TestAverageOfOthers(t *testing.T) {
	const x = 1 + 1./(1<<20)
	together(t, 2, func(comm parallel.Comm) error {
		backend, err := gomlx.Open(gomlx.Options{Ranks: comm, Average: dtype.BF16})
		if err != nil {
			return err
		}
		defer backend.Finalize()
		opt := must(ranks.New(inners()["SGD"]()))
		exec, err := NewExec(backend, func(x *Node) []*Node { return append(opt.Mean([]*Node{x}), ranks.Mean(x)) })
		if err != nil {
			return err
		}
		out, err := exec.Call([]float32{x})
		if err != nil {
			return err
		}
		gradient, err := tensors.CopyFlatData[float32](out[0])
		other, err2 := tensors.CopyFlatData[float32](out[1])
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if gradient[0] != 1 || math.Abs(float64(other[0])-x) > 1e-9 {
			return fmt.Errorf("of %v, the mean of gradients is %v, and another mean %v", x, gradient, other)
		}
		return nil
	})
}

// Without ranks, there is nothing to average, in whichever type.
func TestAverageAlone(t *testing.T) {
	a, err := newTrained(nil, must(ranks.New(inners()["SGD"]())))
	if err != nil {
		t.Fatal(err)
	}
	defer a.backend.Finalize()
	b, err := newTrainedBy(gomlx.Options{Average: dtype.BF16}, nil, must(ranks.New(inners()["SGD"]())))
	if err != nil {
		t.Fatal(err)
	}
	defer b.backend.Finalize()
	if err := errors.Join(a.steps(0, 4), b.steps(0, 4)); err != nil || !slices.Equal(a.loss, b.loss) {
		t.Errorf("losses %v, want %v; %v", b.loss, a.loss, err)
	}
}
