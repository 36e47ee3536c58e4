package step_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/plan"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/host"
)

// recycler is an allocator that gives out again what was freed, newest first, so that
// addresses come again on every device.
type recycler struct {
	device.Device
	sizes map[device.Ptr]int64
	free  map[int64][]device.Ptr
}

func newRecycler(dev device.Device) *recycler {
	return &recycler{dev, map[device.Ptr]int64{}, map[int64][]device.Ptr{}}
}

func (r *recycler) Alloc(n int64) (device.Ptr, error) {
	if free := r.free[n]; len(free) > 0 {
		p := free[len(free)-1]
		r.free[n] = free[:len(free)-1]
		return p, nil
	}
	p, err := r.Device.Alloc(n)
	r.sizes[p] = n
	return p, err
}

func (r *recycler) Free(p device.Ptr) error {
	r.free[r.sizes[p]] = append(r.free[r.sizes[p]], p)
	return nil
}

// drop frees what is there for good.
func (r *recycler) drop(t *testing.T) {
	for _, free := range r.free {
		for _, p := range free {
			testkit.OK(t, r.Device.Free(p))
		}
	}
}

// trainLayers runs a graph of layers several times, each time with the weights of the time
// before, and returns all results.
func trainLayers(t *testing.T, m maker, exec step.Executor, o step.Options, inputs [][]byte, steps int) (results [][]byte, stats step.CaptureStats) {
	t.Helper()
	alloc := newRecycler(exec.Device())
	mem := testkit.Must(step.OpenMemory(exec.Device(), alloc))(t)
	o.Memory = mem
	x := testkit.Must(step.Compile(m.Graph, exec, o))(t)
	in := make([]*step.Tensor, len(inputs))
	for i, b := range inputs {
		in[i] = testkit.Must(mem.Put(b, m.Parameters()[i].Shape()))(t)
	}
	for range steps {
		out := testkit.Must(x.Run(context.Background(), in, o.Donate))(t)
		for i, v := range out {
			b := make([]byte, v.Shape().Bytes())
			testkit.OK(t, v.Read(b))
			results = append(results, b)
			// Results 1 and on are the new weights, last layer first.
			if p := len(inputs) - i; i > 0 && p > 0 && o.Donate != nil && o.Donate[p] {
				in[p] = v
			} else {
				testkit.OK(t, v.Free())
			}
		}
	}
	stats = x.CaptureStats()
	for _, v := range in {
		testkit.OK(t, v.Free())
	}
	testkit.OK(t, x.Close())
	testkit.OK(t, mem.Close())
	alloc.drop(t)
	return results, stats
}

// A step that is launched as one has the same results, bit by bit, as one whose tasks are
// queued, within every budget, with weights that are updated in place and with others.
func TestReplays(t *testing.T) {
	exec := openExecutor(t)
	rng := rand.New(rand.NewPCG(7, 8))
	sent, again := 0, 0
	for i := range 4 {
		m, donate := layers(t, rng, 3+rng.IntN(4))
		var inputs [][]byte
		for _, p := range m.Parameters() {
			inputs = append(inputs, randomFloats(rng, p.Shape().Size()))
		}
		o := step.Options{Donate: donate}
		if i%2 == 0 {
			o.Link = 1e9
		}
		least, most := peaks(t, m.Graph, exec, o)
		for _, budget := range []int64{0, most - (most-least)/4, least + (most-least)/4, least} {
			o.Budget, o.Capture = budget, step.CaptureAlways
			x, err := step.Compile(m.Graph, exec, o)
			if err != nil {
				continue // a plan is not found for every budget
			}
			for _, l := range x.Plan().Lives {
				if l.Sent {
					sent++
				}
			}
			for _, r := range x.Plan().Runs {
				if r.Again {
					again++
				}
			}
			testkit.OK(t, x.Close())
			const steps = 8
			got, stats := trainLayers(t, m, exec, o, inputs, steps)
			if stats.Recorded == 0 || stats.Launched+stats.Queued != steps || stats.Launched < steps/2 || stats.Err != nil {
				t.Errorf("graph %d, budget %d: %+v of %d runs", i, budget, stats, steps)
			}
			o.Capture = step.CaptureNever
			want, stats := trainLayers(t, m, exec, o, inputs, steps)
			if stats.Queued != steps {
				t.Errorf("graph %d, budget %d: %+v of %d runs, though none is to be captured", i, budget, stats, steps)
			}
			for k := range want {
				if !bytes.Equal(got[k], want[k]) {
					t.Errorf("graph %d, budget %d: result %d differs", i, budget, k)
				}
			}
		}
	}
	if sent == 0 || again == 0 {
		t.Errorf("%d values were sent and %d operations ran again: captures were tested without", sent, again)
	}
}

// peaks are the least memory that a plan was found for, and what a step takes without one.
// The workspaces of products are in both: on a GPU, most of small steps' memory.
func peaks(t *testing.T, g *graph.Graph, exec step.Executor, o step.Options) (least, most int64) {
	t.Helper()
	whole := testkit.Must(step.Compile(g, exec, o))(t)
	defer whole.Close()
	o.Budget = 1
	_, err := step.Compile(g, exec, o)
	var impossible *plan.ImpossibleError
	if !errors.As(err, &impossible) {
		t.Fatalf("a budget of one byte: %v", err)
	}
	return impossible.Found, whole.PeakBytes()
}

// product is a graph that multiplies two vectors, in one task.
func product(t *testing.T) maker {
	m := newMaker(t)
	a, b := m.param(f32(3)), m.param(f32(3))
	testkit.OK(t, m.SetOutputs(m.must(m.Binary(graph.Mul, a, b))))
	return m
}

// A step is kept for several sets of addresses, but not for ever more.
func TestReplaysOfManyAddresses(t *testing.T) {
	exec := openExecutor(t)
	m := product(t)
	for _, c := range []struct{ places, recorded, launched int }{{1, 1, 79}, {4, 4, 76}, {70, 0, 0}} {
		alloc := newRecycler(exec.Device())
		mem := testkit.Must(step.OpenMemory(exec.Device(), alloc))(t)
		x := testkit.Must(step.Compile(m.Graph, exec, step.Options{Capture: step.CaptureAlways, Memory: mem}))(t)
		b := testkit.Must(mem.Put(floats(1, 2, 3), f32(3)))(t)
		var at []*step.Tensor
		for range c.places {
			at = append(at, testkit.Must(mem.New(f32(3)))(t))
		}
		for i := range 80 {
			in := at[i%c.places]
			testkit.OK(t, in.Write(floats(float32(i), 1, 2)))
			out := testkit.Must(x.Run(context.Background(), []*step.Tensor{in, b}, nil))(t)
			got := make([]byte, 12)
			testkit.OK(t, out[0].Read(got))
			testkit.OK(t, out[0].Free())
			if !bytes.Equal(got, floats(float32(i), 2, 6)) {
				t.Fatalf("%d places, run %d: %v", c.places, i, got)
			}
		}
		if s := x.CaptureStats(); s.Recorded != c.recorded || s.Launched != c.launched || s.Queued != 80-c.launched {
			t.Errorf("%d places: %+v", c.places, s)
		}
		for _, v := range append(at, b) {
			testkit.OK(t, v.Free())
		}
		testkit.OK(t, x.Close())
		testkit.OK(t, mem.Close())
		alloc.drop(t)
	}
}

// A context that has ended is the error of a run that would be launched, and the next one
// is as ever.
func TestReplayCanceled(t *testing.T) {
	exec := openExecutor(t)
	m := product(t)
	alloc := newRecycler(exec.Device())
	mem := testkit.Must(step.OpenMemory(exec.Device(), alloc))(t)
	x := testkit.Must(step.Compile(m.Graph, exec, step.Options{Capture: step.CaptureAlways, Memory: mem}))(t)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	a := testkit.Must(mem.Put(floats(1, 2, 3), f32(3)))(t)
	b := testkit.Must(mem.Put(floats(1, 2, 3), f32(3)))(t)
	for i := range 6 {
		_, err := x.Run(ended, []*step.Tensor{a, b}, nil)
		testkit.WantError(t, "an ended context", err, context.Canceled)
		out := testkit.Must(x.Run(context.Background(), []*step.Tensor{a, b}, nil))(t)
		got := make([]byte, 12)
		testkit.OK(t, out[0].Read(got))
		testkit.OK(t, out[0].Free())
		if !bytes.Equal(got, floats(1, 4, 9)) {
			t.Fatalf("run %d: %v", i, got)
		}
	}
	if s := x.CaptureStats(); s.Launched == 0 || s.Err != nil {
		t.Errorf("%+v", s)
	}
	_, err := x.Run(ended, []*step.Tensor{a, b}, []bool{true, false})
	testkit.WantError(t, "an ended context", err, context.Canceled)
	if !a.Freed() || b.Freed() {
		t.Error("what was donated is freed, and nothing else")
	}
	testkit.OK(t, b.Free())
	testkit.OK(t, x.Close())
	testkit.OK(t, mem.Close())
	alloc.drop(t)
}

// launching is an executor whose kernels call a function as they are launched.
type launching struct {
	step.Executor
	call func(s device.Stream) error
}

type launchingKernel struct {
	step.Kernel
	call func(s device.Stream) error
}

func (l *launching) Compile(t *step.Task) (step.Kernel, error) {
	k, err := l.Executor.Compile(t)
	return &launchingKernel{k, func(s device.Stream) error { return l.call(s) }}, err
}

func (k *launchingKernel) Launch(s device.Stream, in, out []device.Ptr, scratch device.Ptr) error {
	if err := k.call(s); err != nil {
		return err
	}
	return k.Kernel.Launch(s, in, out, scratch)
}

// A kernel that cannot be captured is run without, unless that was asked for.
func TestReplayFails(t *testing.T) {
	exec := &launching{newExecutor(t), func(s device.Stream) error { return s.Synchronize() }}
	rng := rand.New(rand.NewPCG(9, 9))
	m, _ := layers(t, rng, 6)
	var inputs [][]byte
	for _, p := range m.Parameters() {
		inputs = append(inputs, randomFloats(rng, p.Shape().Size()))
	}
	const steps = 12 // in which addresses come again
	got, stats := trainLayers(t, m, exec, step.Options{}, inputs, steps)
	testkit.WantError(t, "a kernel that waits", stats.Err, device.ErrCapturing)
	if stats.Queued != steps || stats.Launched != 0 || stats.Recorded != 0 {
		t.Errorf("%+v", stats)
	}
	want, _ := trainLayers(t, m, exec, step.Options{Capture: step.CaptureNever}, inputs, steps)
	for k := range want {
		if !bytes.Equal(got[k], want[k]) {
			t.Errorf("result %d differs", k)
		}
	}

	alloc := newRecycler(exec.Device())
	mem := testkit.Must(step.OpenMemory(exec.Device(), alloc))(t)
	x := testkit.Must(step.Compile(product(t).Graph, exec, step.Options{Capture: step.CaptureAlways, Memory: mem}))(t)
	a := testkit.Must(mem.Put(floats(1, 2, 3), f32(3)))(t)
	b := testkit.Must(mem.Put(floats(1, 2, 3), f32(3)))(t)
	out := testkit.Must(x.Run(context.Background(), []*step.Tensor{a, b}, nil))(t)
	testkit.OK(t, out[0].Free())
	_, err := x.Run(context.Background(), []*step.Tensor{a, b}, nil)
	testkit.WantError(t, "CaptureAlways", err, device.ErrCapturing)
	for _, v := range []*step.Tensor{a, b} {
		testkit.OK(t, v.Free())
	}
	testkit.OK(t, x.Close())
	testkit.OK(t, mem.Close())
	alloc.drop(t)
}

// bare is a device that runs Go functions and can do little else.
type bare struct {
	device.Device
	device.Caller
	device.RangeChecker
}

func TestCompileCapture(t *testing.T) {
	dev := testkit.Must(device.Open("host"))(t)
	defer dev.Close()
	caller, _ := device.As[device.Caller](dev)
	ranges, _ := device.As[device.RangeChecker](dev)
	exec := testkit.Must(host.Open(bare{dev, caller, ranges}))(t)
	defer exec.Close()
	m := product(t)
	_, err := step.Compile(m.Graph, exec, step.Options{Capture: step.CaptureAlways})
	testkit.WantError(t, "a device that does not capture", err, device.ErrNotSupported)
	x := testkit.Must(step.Compile(m.Graph, exec, step.Options{}))(t)
	testkit.OK(t, x.Close())
	_, err = step.Compile(m.Graph, exec, step.Options{Capture: 7})
	testkit.WantError(t, "no such Capture", err, step.ErrArgument)
	_, err = step.Compile(nil, exec, step.Options{})
	testkit.WantError(t, "no graph", err, step.ErrArgument)
	_, err = step.Compile(m.Graph, nil, step.Options{})
	testkit.WantError(t, "no executor", err, step.ErrArgument)
}

// A run that waits for another one ends with its context.
func TestRunWaitsWithContext(t *testing.T) {
	gate, running := make(chan struct{}), make(chan struct{}, 1)
	inner := newExecutor(t)
	caller, _ := device.As[device.Caller](inner.Device())
	exec := &launching{inner, func(s device.Stream) error {
		return caller.Call(s, func() error { running <- struct{}{}; <-gate; return nil })
	}}
	x := testkit.Must(step.Compile(product(t).Graph, exec, step.Options{}))(t)
	put := func() *step.Tensor { return testkit.Must(x.Memory().Put(floats(1, 2, 3), f32(3)))(t) }
	a, b, c := put(), put(), put()
	done := make(chan error, 1)
	go func() {
		out, err := x.Run(context.Background(), []*step.Tensor{a, b}, nil)
		if err == nil {
			err = out[0].Free()
		}
		done <- err
	}()
	<-running
	ctx, cancel := context.WithCancel(context.Background())
	waiting := make(chan error, 1)
	go func() {
		_, err := x.Run(ctx, []*step.Tensor{c, b}, []bool{true, false})
		waiting <- err
	}()
	cancel()
	err := <-waiting
	testkit.WantError(t, "a run whose turn did not come", err, context.Canceled)
	testkit.WantError(t, "a run whose turn did not come", err, step.ErrNotBegun)
	if c.Freed() {
		t.Error("a run that did not begin took an input")
	}
	close(gate)
	testkit.OK(t, <-done)
	for _, v := range []*step.Tensor{a, b, c} {
		testkit.OK(t, v.Free())
	}
	testkit.OK(t, x.Close())
}

// BenchmarkTasks runs steps of very small tasks, each queued and all launched as one: what
// the difference is to a task is reported.
func BenchmarkTasks(b *testing.B) {
	exec := openExecutor(b)
	for _, tasks := range []int{4, 16, 64, 1024} {
		for name, capture := range map[string]step.Capture{"queued": step.CaptureNever, "launched": step.CaptureAlways} {
			b.Run(fmt.Sprintf("%s/%d", name, tasks), func(b *testing.B) {
				m := newMaker(b)
				h := m.param(f32(64))
				for range tasks {
					h = m.must(m.Reverse(h, 0))
				}
				testkit.OK(b, m.SetOutputs(h))
				s, err := step.OpenSession(m.Graph, exec, step.SessionOptions{Compile: step.Options{Capture: capture}})
				testkit.OK(b, err)
				defer s.Close()
				for range 2 {
					_, err := s.Run(context.Background(), nil, nil)
					testkit.OK(b, err)
				}
				b.ResetTimer()
				for b.Loop() {
					if _, err := s.Run(context.Background(), nil, nil); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(s.Executable().Tasks())), "ns/task")
			})
		}
	}
}
