package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/pipeline"
	"github.com/pinion-gpu/pinion/step/train"
)

// opened calls fn on ranks with a runner whose state was put.
func (n *network) opened(t *testing.T, size int, o pipeline.Options, fn func(c parallel.Comm, r *pipeline.Runner) error) []error {
	return together(t, size, func(c parallel.Comm, exec step.Executor) error {
		r, err := pipeline.Open(n.Step, exec, c, o)
		if err != nil {
			return err
		}
		for _, s := range n.State {
			err = errors.Join(err, r.Put(s.Param, n.initial[s.Param]))
		}
		if err == nil {
			err = fn(c, r)
			if err != nil {
				// What the others are told, they are told before this rank frees anything.
				c.Abort(err)
			}
		}
		return errors.Join(err, r.Close())
	})
}

// A rank that cannot make a batch ends the others, wherever they are.
func TestFailure(t *testing.T) {
	testkit.NoLeaks(t)
	n := randomNet(5, traits{layers: 6, rows: 4, width: 5, tied: true, drop: true})
	gone := errors.New("the disk is gone")
	for failing := range 3 {
		for micro := range 4 {
			errs := n.opened(t, 3, pipeline.Options{Micro: 6, Chunks: 2}, func(c parallel.Comm, r *pipeline.Runner) error {
				_, err := r.Run(context.Background(), func(m int) ([]*step.Tensor, error) {
					list, err := n.tensors(r, 0, m)
					if m == micro && c.Rank() == failing {
						return list[:1], errors.Join(err, gone, list[1].Free())
					}
					return list, err
				})
				if _, again := r.Run(context.Background(), nil); again == nil {
					t.Errorf("rank %d goes on after %v", c.Rank(), err)
				}
				return err
			})
			for rank, err := range errs {
				if err == nil {
					t.Fatalf("rank %d of 3 does not notice that rank %d failed", rank, failing)
				}
				if rank != failing {
					testkit.WantError(t, "another rank", err, parallel.ErrAborted, "rank", "step 1")
				}
			}
			testkit.WantError(t, "the rank that failed", errs[failing], gone, "step 1: stage", "of 6: forward pass of micro-batch")
		}
	}
}

// A context that ends, ends a rank that waits for others.
func TestCancel(t *testing.T) {
	testkit.NoLeaks(t)
	n := randomNet(6, traits{layers: 6, rows: 4, width: 5})
	ctx, cancel := context.WithCancel(context.Background())
	stop := make(chan struct{})
	errs := n.opened(t, 2, pipeline.Options{Micro: 4}, func(c parallel.Comm, r *pipeline.Runner) error {
		if c.Rank() == 0 {
			time.AfterFunc(20*time.Millisecond, cancel)
			<-stop // it does not come
			return nil
		}
		defer close(stop)
		_, err := r.Run(ctx, func(m int) ([]*step.Tensor, error) { return n.tensors(r, 0, m) })
		return err
	})
	testkit.WantError(t, "cancelled", errs[1], context.Canceled, "rank 1 of 2: step 1: stage 1 of 2")
}

// What cannot be right is an error on all ranks.
func TestErrors(t *testing.T) {
	n := randomNet(7, traits{layers: 3, rows: 2, width: 3})
	for what, c := range map[string]struct {
		size int
		o    pipeline.Options
		says string
	}{
		"no micro-batches": {2, pipeline.Options{}, "0 micro-batches"},
		"interleaved":      {2, pipeline.Options{Micro: 3, Chunks: 2}, "multiple of the ranks"},
		"many stages":      {3, pipeline.Options{Micro: 3, Chunks: 40}, "120 stages of a loss"},
	} {
		for _, err := range n.opened(t, c.size, c.o, nil) {
			testkit.WantError(t, what, err, pipeline.ErrArgument, c.says)
		}
	}
	for _, err := range n.opened(t, 2, pipeline.Options{Micro: 2, Budget: 100}, nil) {
		testkit.WantError(t, "budget", err, errs.ErrTooLarge, "within 100 B")
	}
	for _, err := range n.opened(t, 2, pipeline.Options{Micro: 2}, func(c parallel.Comm, r *pipeline.Runner) error {
		_, err := r.Run(context.Background(), func(int) ([]*step.Tensor, error) { return nil, nil })
		return err
	}) {
		if !errors.Is(err, pipeline.ErrArgument) && !errors.Is(err, parallel.ErrAborted) {
			t.Error(err)
		}
	}
	for _, err := range together(t, 2, func(c parallel.Comm, exec step.Executor) error {
		r, err := pipeline.Open(n.Step, exec, c, pipeline.Options{Micro: 2})
		if err != nil {
			return err
		}
		_, err = r.Run(context.Background(), nil)
		return errors.Join(err, r.Close(), r.Close())
	}) {
		testkit.WantError(t, "state", err, pipeline.ErrArgument, "was never put")
	}
}

// Steps that cannot be cut are refused, with the reason.
func TestRefused(t *testing.T) {
	base := func() *network { return randomNet(8, traits{layers: 3, rows: 2, width: 3}) }
	for says, change := range map[string]func(n *network){
		"without a graph":         func(n *network) { n.Graph = nil },
		"and not one float32":     func(n *network) { n.Loss = n.Batch[0] },
		"no way back":             func(n *network) { n.Gradients = nil },
		"a scaler":                func(n *network) { n.Scale = n.State[0].Param },
		"neither batch nor state": func(n *network) { n.State = n.State[1:] },
		"no parameter":            func(n *network) { n.Batch[0] = n.Loss },
		"takes the place of":      func(n *network) { n.State[0].Next = n.Batch[0] },
		"there twice":             func(n *network) { n.Gradients = append(n.Gradients, n.Gradients[0]) },
		"on no batch":             func(n *network) { n.Loss = must(n.Graph.Fill(0, f32())) },
		"through the gradients alone": func(n *network) {
			n.State[0].Next = must(n.Graph.Binary(graph.Add, n.State[0].Next, n.Loss))
		},
		"changes with each micro-batch": func(n *network) {
			p := must(n.Graph.Parameter("counter", f32()))
			n.State = append(n.State, train.State{Param: p, Next: must(n.Graph.Binary(graph.Add, p, p)), Each: true})
			n.State[0].Next = must(n.Graph.Binary(graph.Add, n.State[0].Next, p))
		},
		"which ranks do together": func(n *network) {
			sums, err := n.Graph.AllReduce(graph.AllReduceOptions{}, n.Loss)
			must(sums[0], err)
		},
		"of each other": func(n *network) { // a large value of one stage, in another's update
			p := must(n.Graph.Parameter("large", f32(200, 200)))
			q := must(n.Graph.Parameter("other", f32(200, 200)))
			wide := func(g graph.Value) graph.Value {
				return must(n.Graph.BroadcastInDim(must(n.Graph.Reduce(graph.ReduceSum, g, 0, 1)), []int{200, 200}, nil))
			}
			first, last := n.Gradients[0], n.Gradients[len(n.Gradients)-1]
			next := must(n.Graph.Binary(graph.Add, p, wide(first)))
			n.State = append(n.State, train.State{Param: p, Next: next},
				train.State{Param: q, Next: must(n.Graph.Binary(graph.Add, must(n.Graph.Binary(graph.Add, q, wide(last))), p))})
		},
	} {
		n := base()
		change(n)
		_, err := pipeline.Plan(n.Step, 3, pipeline.Options{Micro: 3})
		testkit.WantError(t, says, err, pipeline.ErrArgument, says)
	}
	n := base()
	if _, err := pipeline.Plan(n.Step, 0, pipeline.Options{Micro: 3}); err == nil || !strings.Contains(err.Error(), "0 ranks") {
		t.Error(err)
	}
}

// What a micro-batch leaves for the next stays in its stage.
func TestKeptElsewhere(t *testing.T) {
	g := graph.New("kept")
	x, kept, w := must(g.Parameter("x", f32(4))), must(g.Parameter("kept", f32(4))), must(g.Parameter("w", f32()))
	h := must(g.Binary(graph.Mul, x, kept))
	for range 6 {
		h = must(g.Unary(graph.Tanh, h))
	}
	sum := must(g.Reduce(graph.ReduceSum, h, 0))
	_, err := pipeline.Plan(train.Step{
		Graph: g, Batch: []graph.Value{x}, Loss: must(g.Binary(graph.Mul, sum, w)), Gradients: []graph.Value{sum},
		State: []train.State{{Param: kept, Next: h, Each: true}, {Param: w, Next: must(g.Binary(graph.Sub, w, sum))}},
	}, 3, pipeline.Options{Micro: 3})
	testkit.WantError(t, "kept", err, pipeline.ErrArgument, `parameter "kept" is read in stage 0, and what takes its place`)
}

// A loss that is not finite is told on all ranks, which go on.
func TestNotFinite(t *testing.T) {
	n := randomNet(9, traits{layers: 3, rows: 2, width: 3})
	good := n.data
	for _, err := range n.opened(t, 2, pipeline.Options{Micro: 2}, func(c parallel.Comm, r *pipeline.Runner) error {
		_, err := r.Run(context.Background(), func(m int) ([]*step.Tensor, error) {
			x, err := r.Memory().Put(good(0, m)[0], f32(2, 3))
			y, err2 := r.Memory().Put(bytes.Repeat(floats(float32(math.Inf(1))), 6), f32(2, 3))
			return []*step.Tensor{x, y}, errors.Join(err, err2)
		})
		testkit.WantError(t, "infinite", err, train.ErrNotFinite, "step 1")
		if _, err := r.Run(context.Background(), func(m int) ([]*step.Tensor, error) { return n.tensors(r, 1, m) }); !errors.Is(err, train.ErrNotFinite) {
			t.Errorf("the weights are %v", err) // what is not finite stays
		}
		err = r.Close()
		_, closed := r.Run(context.Background(), nil)
		testkit.WantError(t, "closed", closed, pipeline.ErrClosed)
		testkit.WantError(t, "closed", r.Put(n.State[0].Param, nil), pipeline.ErrClosed)
		return err
	}) {
		testkit.OK(t, err)
	}
}

// Get and Put say what is wrong with them.
func TestState(t *testing.T) {
	n := randomNet(10, traits{layers: 3, rows: 2, width: 3})
	for _, err := range together(t, 2, func(c parallel.Comm, exec step.Executor) error {
		r, err := pipeline.Open(n.Step, exec, c, pipeline.Options{Micro: 2})
		if err != nil {
			return err
		}
		p := n.State[0].Param
		testkit.WantError(t, "no state", r.Put(n.Batch[0], nil), pipeline.ErrArgument, "not of the state")
		testkit.WantError(t, "size", r.Put(p, nil), pipeline.ErrArgument, "bytes, not 0")
		testkit.WantError(t, "never put", r.Get(p, make([]byte, p.Shape().Bytes())), pipeline.ErrArgument, "never put")
		for range 2 { // the second time, in its place
			err = errors.Join(err, r.Put(p, n.initial[p]))
		}
		return errors.Join(err, r.Close())
	}) {
		testkit.OK(t, err)
	}
}
