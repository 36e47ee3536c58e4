package train_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/plan"
	"github.com/pinion-gpu/pinion/step/train"
)

// Micro-batches make the steps of the large batch, to rounding. (Adam would make large
// differences of the smallest ones.)
func TestAccumulate(t *testing.T) {
	exec := openExecutor(t)
	x, y := points(240, 1)
	whole := testkit.Must(build(kind{batch: 240, hidden: 32, rate: 0.5, descent: true}))(t)
	r := whole.open(t, exec, train.Options{})
	want := run(t, r, 5, batches(r, x, y, 240))
	several := []int{2, 3, 8}
	if onDevice {
		several = several[1:2]
	}
	for _, parts := range several {
		n := testkit.Must(build(kind{batch: 240 / parts, hidden: 32, rate: 0.5, descent: true}))(t)
		a := n.open(t, exec, train.Options{Accumulate: parts})
		got := run(t, a, 5, batches(a, x, y, 240/parts))
		for i := range want {
			if got[i].Step != want[i].Step || math.Abs(got[i].Loss-want[i].Loss) > 1e-5 {
				t.Errorf("%d micro-batches: step %d has a loss of %v, want %v", parts, i+1, got[i].Loss, want[i].Loss)
			}
		}
		for i, w := range n.weights {
			before, after := numbers(whole.get(t, r, whole.weights[i])), numbers(n.get(t, a, w))
			for j := range before {
				if math.Abs(float64(before[j]-after[j])) > 1e-4 {
					t.Fatalf("%d micro-batches: weight %d of parameter %d is %v, want %v", parts, j, i, after[j], before[j])
				}
			}
		}
		micro, update := a.Executables()
		if micro == nil || update == nil {
			t.Errorf("%d micro-batches: %v, %v", parts, micro, update)
		}
	}
}

// counter is an allocator that knows how much it gave out at most.
type counter struct {
	device.Device
	sizes     map[device.Ptr]int64
	now, most int64
}

func (c *counter) Alloc(n int64) (device.Ptr, error) {
	p, err := c.Device.Alloc(n)
	if err == nil {
		n = (n + 255) / 256 * 256
		c.sizes[p] = n
		c.now += n
		c.most = max(c.most, c.now)
	}
	return p, err
}

func (c *counter) Free(p device.Ptr) error {
	c.now -= c.sizes[p]
	return c.Device.Free(p)
}

// What a runner takes is what it says, sums of gradients included, and the numbers are the
// same within a budget.
func TestMemory(t *testing.T) {
	exec := openExecutor(t)
	x, y := points(256, 2)
	for _, parts := range []int{1, 4} {
		size := 256 / parts
		n := testkit.Must(build(kind{batch: size, hidden: 32, rate: 0.01}))(t)
		train1 := func(budget int64) (*train.Runner, [][]byte) {
			c := &counter{Device: exec.Device(), sizes: map[device.Ptr]int64{}}
			mem := testkit.Must(step.OpenMemory(exec.Device(), c))(t)
			t.Cleanup(func() { testkit.OK(t, mem.Close()) })
			r := n.open(t, exec, train.Options{Accumulate: parts, Compile: step.Options{Budget: budget, Memory: mem}})
			run(t, r, 2, batches(r, x, y, size))
			// Results that take no parameter's place are counted for both graphs.
			if c.most > r.PeakBytes() || c.most < r.PeakBytes()-1024 {
				t.Errorf("%d micro-batches: %d bytes were allocated, and %d planned", parts, c.most, r.PeakBytes())
			}
			var out [][]byte
			for _, w := range n.weights {
				out = append(out, n.get(t, r, w))
			}
			return r, out
		}
		free, want := train1(0)
		_, err := train.Open(n.Step, exec, train.Options{Accumulate: parts, Compile: step.Options{Budget: 1}})
		testkit.WantError(t, "one byte", err, plan.ErrBudget)
		// Each error says what one of the two graphs can do with.
		budget := free.PeakBytes() / 2
		for range 3 {
			half, err := train.Open(n.Step, exec, train.Options{Accumulate: parts, Compile: step.Options{Budget: budget}})
			e := (*plan.ImpossibleError)(nil)
			if !errors.As(err, &e) {
				testkit.OK(t, err)
				testkit.OK(t, half.Close())
				break
			}
			if e.Budget != budget || e.Found <= e.Budget || e.Found > free.PeakBytes() {
				t.Errorf("%d micro-batches: %v", parts, e)
			}
			budget = e.Found
		}
		tight, got := train1(budget)
		if tight.PeakBytes() > budget {
			t.Errorf("%d bytes within %d", tight.PeakBytes(), budget)
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("%d micro-batches: parameter %d differs within %d of %d bytes", parts, i, budget, free.PeakBytes())
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	exec := openExecutor(t)
	n := testkit.Must(build(kind{batch: 4, hidden: 4, rate: 0.01}))(t)
	for what, change := range map[string]func(s *train.Step, o *train.Options){
		"no graph":            func(s *train.Step, _ *train.Options) { s.Graph = nil },
		"no loss":             func(s *train.Step, _ *train.Options) { s.Loss = graph.Value{} },
		"a loss of many":      func(s *train.Step, _ *train.Options) { s.Loss = s.Gradients[0] },
		"a parameter too few": func(s *train.Step, _ *train.Options) { s.Batch = s.Batch[:1] },
		"a parameter twice":   func(s *train.Step, _ *train.Options) { s.Batch = append(s.Batch[:2:2], s.Batch[0]) },
		"no parameter":        func(s *train.Step, _ *train.Options) { s.Batch = append(s.Batch[:2:2], s.Loss) },
		"a part of a step that is whole": func(s *train.Step, _ *train.Options) {
			s.State = slices.Clone(s.State)
			s.State[0].Part = &train.Part{Whole: s.State[0].Param.Shape(), Axis: -1}
		},
		"a part of another size": func(s *train.Step, _ *train.Options) {
			s.SplitOver, s.State = 2, slices.Clone(s.State)
			s.State[0].Part = &train.Part{Whole: s.State[0].Param.Shape(), Axis: 1}
		},
		"another shape": func(s *train.Step, _ *train.Options) {
			s.State = append(s.State[1:len(s.State):len(s.State)], train.State{Param: s.State[0].Param, Next: s.State[1].Next})
		},
		"no gradients":          func(s *train.Step, o *train.Options) { s.Gradients, o.Accumulate = nil, 2 },
		"gradients that lack":   func(s *train.Step, o *train.Options) { s.Gradients, o.Accumulate = s.Gradients[1:], 2 },
		"gradients of ints":     func(s *train.Step, o *train.Options) { s.Gradients, o.Accumulate = s.Batch[1:], 2 },
		"autocast to integers":  func(s *train.Step, o *train.Options) { o.Autocast = dtype.I8 },
		"a scale of weights":    func(s *train.Step, o *train.Options) { s.Scale = n.weights[0] },
		"micro-batches below 0": func(s *train.Step, o *train.Options) { o.Accumulate = -1 },
		"a negative budget":     func(s *train.Step, o *train.Options) { o.Compile.Budget = -1 },
	} {
		s, o := n.Step, train.Options{}
		change(&s, &o)
		_, err := train.Open(s, exec, o)
		testkit.WantError(t, what, err, train.ErrArgument)
		if what == "no loss" {
			testkit.WantError(t, what, err, train.ErrArgument, "a step without a loss")
		}
	}
	r := testkit.Must(train.Open(n.Step, exec, train.Options{}))(t)
	ctx := context.Background()
	x, y := points(4, 1)
	batch := batches(r, x, y, 4)
	_, err := r.Run(ctx, batch)
	testkit.WantError(t, "no state", err, train.ErrArgument, "never put")
	testkit.WantError(t, "no state to get", r.Get(n.weights[0], nil), train.ErrArgument, "never put")
	testkit.WantError(t, "a batch is no state", r.Put(n.Batch[0], nil), train.ErrArgument, `parameter "p0" is not of the state`)
	testkit.WantError(t, "too few bytes", r.Put(n.weights[0], nil), step.ErrArgument)
	for _, s := range n.State {
		testkit.OK(t, r.Put(s.Param, n.initial[s.Param]))
	}
	gone := errors.New("no more")
	_, err = r.Run(ctx, func(int) ([]*step.Tensor, error) { return nil, gone })
	testkit.WantError(t, "a batch that fails", err, gone, "step 1", "no more")
	_, err = r.Run(ctx, func(int) ([]*step.Tensor, error) { return nil, nil })
	testkit.WantError(t, "no batch", err, train.ErrArgument, "0 tensors for 2")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = r.Run(ended, batch)
	testkit.WantError(t, "a context that ended", err, context.Canceled, "step 1")
	if got := run(t, r, 1, batch); got[0].Step != 1 {
		t.Errorf("%+v after steps that failed", got)
	}
	testkit.OK(t, r.Close())
	testkit.OK(t, r.Close())
	_, err = r.Run(ctx, batch)
	testkit.WantError(t, "a closed runner", err, train.ErrClosed)
	testkit.WantError(t, "a closed runner's state", r.Put(n.weights[0], nil), train.ErrClosed)
}

// A loss that is no number is reported with its step.
func TestNotFinite(t *testing.T) {
	exec := openExecutor(t)
	n := testkit.Must(build(kind{batch: 4, hidden: 4, rate: 0.01}))(t)
	r := n.open(t, exec, train.Options{})
	x, y := points(4, 1)
	run(t, r, 2, batches(r, x, y, 4))
	x[3] = float32(math.NaN())
	got, err := r.Run(context.Background(), batches(r, x, y, 4))
	testkit.WantError(t, "a sample that is no number", err, train.ErrNotFinite, "step 3", "NaN")
	if got.Step != 3 || !math.IsNaN(got.Loss) {
		t.Errorf("%+v", got)
	}
}
