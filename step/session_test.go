package step_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/host"
)

func ExampleOpenSession() {
	dev, _ := device.Open("host")
	defer dev.Close()
	exec, _ := host.Open(dev)
	defer exec.Close()

	// A sum of what came so far, which stays on the device.
	g := graph.New("sum")
	x, _ := g.Parameter("x", graph.MakeShape(dtype.F32, 2))
	before, _ := g.Parameter("sum", graph.MakeShape(dtype.F32, 2))
	sum, _ := g.Binary(graph.Add, before, x)
	doubled, _ := g.Binary(graph.Add, sum, sum)
	_ = g.SetOutputs(doubled, sum)

	memory, _ := step.OpenMemory(dev, nil)
	defer memory.Close()
	kept, _ := memory.Put(floats(0, 0), before.Shape())
	defer kept.Free()
	s, err := step.OpenSession(g, exec, step.SessionOptions{
		Tensors: []*step.Tensor{nil, kept}, // x comes with each run
		State:   map[int]int{1: 1},         // and result 1 is the sum of the next
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	out := make([]byte, 8)
	for range 3 {
		if _, err := s.Run(context.Background(), [][]byte{floats(1, 10)}, [][]byte{out}); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(math.Float32frombits(binary.LittleEndian.Uint32(out)), math.Float32frombits(binary.LittleEndian.Uint32(out[4:])))
	}
	// Output:
	// 2 20
	// 4 40
	// 6 60
}

// buffersOf makes memory for values.
func buffersOf(values []graph.Value) [][]byte {
	var all [][]byte
	for _, v := range values {
		all = append(all, make([]byte, v.Shape().Bytes()))
	}
	return all
}

// What a session returns, and what it keeps, is the same as that of runs of an executable.
func TestSession(t *testing.T) {
	exec := openExecutor(t)
	rng := rand.New(rand.NewPCG(11, 12))
	for i := range 4 {
		m, _ := layers(t, rng, 3+rng.IntN(4))
		params := m.Parameters()
		var inputs [][]byte
		for _, p := range params {
			inputs = append(inputs, randomFloats(rng, p.Shape().Size()))
		}
		o := step.SessionOptions{}
		lent := len(m.Outputs()) - 2 // the gradient of the first layer's input
		if i == 1 {
			o.Compile.Lend = make([]bool, len(m.Outputs()))
			o.Compile.Lend[lent] = true
		}
		if i%2 == 0 {
			least, most := peaks(t, m.Graph, exec, step.Options{Link: 1e9})
			o.Compile = step.Options{Budget: least + (most-least)*3/4, Link: 1e9}
		}
		if i == 3 {
			o.Compile.Capture = step.CaptureNever
		}
		// What a run without a session makes of it, three times.
		var want [][][]byte
		plain := testkit.Must(step.Compile(m.Graph, exec, step.Options{}))(t)
		now := append([][]byte(nil), inputs...)
		for range 3 {
			var in []*step.Tensor
			for j, p := range params {
				in = append(in, testkit.Must(plain.Memory().Put(now[j], p.Shape()))(t))
			}
			var results [][]byte
			for j, v := range testkit.Must(plain.Run(context.Background(), in, nil))(t) {
				b := make([]byte, v.Shape().Bytes())
				testkit.OK(t, v.Read(b))
				testkit.OK(t, v.Free())
				results = append(results, b)
				if p := len(params) - j; j > 0 && p > 0 {
					now[p] = b
				}
			}
			for _, v := range in {
				testkit.OK(t, v.Free())
			}
			want = append(want, results)
		}
		testkit.OK(t, plain.Close())

		// With everything as inputs and outputs.
		s, err := step.OpenSession(m.Graph, exec, o)
		testkit.OK(t, err)
		values, first := slices.Clone(m.Outputs()), slices.Clone(want[0])
		if o.Compile.Lend != nil {
			values, first = slices.Delete(values, lent, lent+1), slices.Delete(first, lent, lent+1)
		}
		out := buffersOf(values)
		for range 4 {
			latency, err := s.Run(context.Background(), inputs, out)
			testkit.OK(t, err)
			if latency <= 0 {
				t.Errorf("a run took %v", latency)
			}
			for j := range out {
				if !bytes.Equal(out[j], first[j]) {
					t.Errorf("graph %d: result %d differs", i, j)
				}
				if !bytes.Equal(s.Outputs()[j], first[j]) {
					t.Errorf("graph %d: output %d differs", i, j)
				}
				clear(out[j])
			}
		}
		wantRecorded(t, s, o.Compile.Capture != step.CaptureNever)
		// With inputs written to their places.
		for j, b := range s.Inputs() {
			copy(b, inputs[j])
		}
		_, err = s.Run(context.Background(), nil, nil)
		testkit.OK(t, err)
		if !bytes.Equal(s.Outputs()[0], want[0][0]) {
			t.Errorf("graph %d: a run on its buffers differs", i)
		}
		testkit.OK(t, s.Close())
		testkit.OK(t, s.Close())

		// With weights that are kept and updated.
		mem := testkit.Must(step.OpenMemory(exec.Device(), nil))(t)
		o.Tensors = make([]*step.Tensor, len(params))
		o.State = map[int]int{}
		for p := 1; p < len(params); p++ {
			o.Tensors[p] = testkit.Must(mem.Put(inputs[p], params[p].Shape()))(t)
			o.State[len(params)-p] = p
		}
		s, err = step.OpenSession(m.Graph, exec, o)
		testkit.OK(t, err)
		var outputs []graph.Value
		var numbers []int
		for j, v := range m.Outputs() {
			if _, kept := o.State[j]; !kept && (o.Compile.Lend == nil || j != lent) {
				outputs, numbers = append(outputs, v), append(numbers, j)
			}
		}
		out = buffersOf(outputs)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		for run := range 3 {
			_, err := s.Run(ended, inputs[:1], out)
			testkit.WantError(t, "an ended context", err, context.Canceled)
			_, err = s.Run(context.Background(), inputs[:1], out)
			testkit.OK(t, err)
			for j, n := range numbers {
				if !bytes.Equal(out[j], want[run][n]) {
					t.Errorf("graph %d, run %d: result %d differs", i, run, n)
				}
			}
			for result, p := range o.State {
				b := make([]byte, params[p].Shape().Bytes())
				testkit.OK(t, o.Tensors[p].Read(b))
				if !bytes.Equal(b, want[run][result]) {
					t.Errorf("graph %d, run %d: parameter %d is not result %d", i, run, p, result)
				}
			}
		}
		wantRecorded(t, s, o.Compile.Capture != step.CaptureNever)
		testkit.OK(t, s.Close())
		for _, v := range o.Tensors[1:] {
			testkit.OK(t, v.Free())
		}
		testkit.OK(t, mem.Close())
	}
}

// wantRecorded checks that runs are one launch, if they should be and the device can.
func wantRecorded(t *testing.T, s *step.Session, want bool) {
	t.Helper()
	if c, ok := device.As[device.Capturer](s.Executable().Memory().Device()); !ok || !c.CanCapture() {
		want = false
	}
	recorded, err := s.Recorded()
	if recorded != want || err != nil {
		t.Errorf("recorded: %t, %v; want %t", recorded, err, want)
	}
}

// States may change places, though each result could be written over the other.
func TestSessionSwaps(t *testing.T) {
	exec := openExecutor(t)
	m := newMaker(t)
	a, b := m.param(f32(2)), m.param(f32(2))
	two, three := m.must(m.Fill(2, f32(2))), m.must(m.Fill(3, f32(2)))
	testkit.OK(t, m.SetOutputs(m.must(m.Binary(graph.Mul, b, two)), m.must(m.Binary(graph.Mul, a, three))))
	mem := testkit.Must(step.OpenMemory(exec.Device(), nil))(t)
	at := []*step.Tensor{
		testkit.Must(mem.Put(floats(1, 2), f32(2)))(t),
		testkit.Must(mem.Put(floats(5, 7), f32(2)))(t),
	}
	s, err := step.OpenSession(m.Graph, exec, step.SessionOptions{Tensors: at, State: map[int]int{0: 0, 1: 1}})
	testkit.OK(t, err)
	for i, want := range [][2][]byte{
		{floats(10, 14), floats(3, 6)},
		{floats(6, 12), floats(30, 42)},
		{floats(60, 84), floats(18, 36)},
	} {
		_, err := s.Run(context.Background(), nil, nil)
		testkit.OK(t, err)
		for j := range at {
			got := make([]byte, 8)
			testkit.OK(t, at[j].Read(got))
			if !bytes.Equal(got, want[j]) {
				t.Errorf("run %d: state %d is %v, want %v", i, j, got, want[j])
			}
		}
	}
	testkit.OK(t, s.Close())
	for _, v := range at {
		testkit.OK(t, v.Free())
	}
	testkit.OK(t, mem.Close())
}

func TestSessionErrors(t *testing.T) {
	exec := newExecutor(t)
	ctx := context.Background()
	m := product(t)
	mem := testkit.Must(step.OpenMemory(exec.Device(), nil))(t)
	kept := testkit.Must(mem.Put(floats(1, 2, 3), f32(3)))(t)
	small := testkit.Must(mem.Put(floats(1), f32(1)))(t)
	one := []*step.Tensor{nil, kept}
	for what, o := range map[string]step.SessionOptions{
		"Donate":                   {Compile: step.Options{Donate: []bool{true, false}}},
		"Lend of another length":   {Compile: step.Options{Lend: make([]bool, 2)}},
		"State of what is lent":    {Compile: step.Options{Lend: []bool{true}}, Tensors: one, State: map[int]int{0: 1}},
		"few Tensors":              {Tensors: one[:1]},
		"a tensor of other shape":  {Tensors: []*step.Tensor{nil, small}},
		"State of no result":       {Tensors: one, State: map[int]int{1: 1}},
		"State of no parameter":    {Tensors: one, State: map[int]int{0: 2}},
		"State of an input":        {Tensors: one, State: map[int]int{0: 0}},
		"State of a shared tensor": {Tensors: []*step.Tensor{kept, kept}, State: map[int]int{0: 0}},
	} {
		s, err := step.OpenSession(m.Graph, exec, o)
		testkit.WantError(t, what, err, step.ErrArgument)
		if s != nil {
			t.Errorf("%s: there is a session", what)
		}
	}
	_, err := step.OpenSession(nil, exec, step.SessionOptions{})
	testkit.WantError(t, "no graph", err, step.ErrArgument)

	s, err := step.OpenSession(m.Graph, exec, step.SessionOptions{Tensors: one})
	testkit.OK(t, err)
	out := [][]byte{make([]byte, 12)}
	for what, c := range map[string][2][][]byte{
		"no inputs":       {{}, out},
		"a short input":   {{floats(1)}, out},
		"many outputs":    {{floats(1, 2, 3)}, {out[0], out[0]}},
		"a short output":  {{floats(1, 2, 3)}, {out[0][:4]}},
		"an absent input": {{nil}, out},
	} {
		_, err := s.Run(ctx, c[0], c[1])
		testkit.WantError(t, what, err, step.ErrArgument)
	}
	_, err = s.Run(ctx, [][]byte{floats(1, 2, 3)}, out)
	testkit.OK(t, err)
	testkit.OK(t, s.Close())
	_, err = s.Run(ctx, [][]byte{floats(1, 2, 3)}, out)
	testkit.WantError(t, "a closed session", err, step.ErrClosed)
	if kept.Freed() {
		t.Error("a session freed a tensor of its caller's")
	}

	// A kernel that cannot be recorded is queued each time, unless that was ruled out.
	bad := &launching{exec, func(s device.Stream) error { return s.Synchronize() }}
	s, err = step.OpenSession(m.Graph, bad, step.SessionOptions{Tensors: one})
	testkit.OK(t, err)
	for range 3 {
		_, err = s.Run(ctx, [][]byte{floats(1, 2, 3)}, out)
		testkit.OK(t, err)
		if !bytes.Equal(out[0], floats(1, 4, 9)) {
			t.Errorf("%v", out[0])
		}
	}
	recorded, err := s.Recorded()
	testkit.WantError(t, "a step that cannot be recorded", err, device.ErrCapturing)
	if recorded {
		t.Error("it is recorded")
	}
	testkit.OK(t, s.Close())
	s, err = step.OpenSession(m.Graph, bad, step.SessionOptions{Compile: step.Options{Capture: step.CaptureAlways}})
	testkit.OK(t, err)
	_, err = s.Run(ctx, [][]byte{floats(1, 2, 3), floats(1, 2, 3)}, nil)
	testkit.WantError(t, "CaptureAlways", err, device.ErrCapturing)
	testkit.OK(t, s.Close())
	testkit.OK(t, kept.Free())
	testkit.OK(t, small.Free())
	testkit.OK(t, mem.Close())
}

// Several sessions run beside each other on the same weights, each for several callers.
func TestSessionsAtOnce(t *testing.T) {
	exec := openExecutor(t)
	m := product(t)
	mem := testkit.Must(step.OpenMemory(exec.Device(), nil))(t)
	kept := testkit.Must(mem.Put(floats(1, 2, 3), f32(3)))(t)
	var all sync.WaitGroup
	for i := range 3 {
		s, err := step.OpenSession(m.Graph, exec, step.SessionOptions{Tensors: []*step.Tensor{nil, kept}})
		testkit.OK(t, err)
		var some sync.WaitGroup
		for j := range 3 {
			some.Go(func() {
				out := [][]byte{make([]byte, 12)}
				for k := range 20 {
					v := float32(i*100 + j*1000 + k)
					if _, err := s.Run(context.Background(), [][]byte{floats(v, v, v)}, out); err != nil {
						t.Error(err)
						return
					}
					if !bytes.Equal(out[0], floats(v, 2*v, 3*v)) {
						t.Errorf("session %d, caller %d, run %d: %v", i, j, k, out[0])
					}
				}
			})
		}
		all.Go(func() {
			some.Wait()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	testkit.OK(t, kept.Free())
	testkit.OK(t, mem.Close())
}

// spare is an executor for the host whose kernels allocate nothing when they run: they add
// up bytes, whatever the task.
type spare struct {
	step.Executor
	caller device.Caller
}

type spareKernel struct {
	spare *spare
	in    []graph.Value
	out   graph.Value
}

func (s *spare) Compile(t *step.Task) (step.Kernel, error) {
	return &spareKernel{s, t.Inputs, t.Outputs[0]}, nil
}

func (*spareKernel) Scratch() int64 { return 0 }

func (k *spareKernel) Launch(s device.Stream, in, out []device.Ptr, _ device.Ptr) error {
	to, err := k.spare.caller.Bytes(out[0], k.out.Shape().Bytes())
	if err != nil {
		return err
	}
	var from [][]byte
	for i, p := range in {
		b, err := k.spare.caller.Bytes(p, k.in[i].Shape().Bytes())
		if err != nil {
			return err
		}
		from = append(from, b)
	}
	return k.spare.caller.Call(s, func() error {
		clear(to)
		for _, b := range from {
			for i := range to {
				to[i] += b[i]
			}
		}
		return nil
	})
}

// A run of a session allocates nothing, from the second one on.
func TestSessionAllocatesNothing(t *testing.T) {
	exec := openExecutor(t)
	if caller, ok := device.As[device.Caller](exec.Device()); ok {
		exec = &spare{exec, caller}
	}
	if c, ok := device.As[device.Capturer](exec.Device()); !ok || !c.CanCapture() {
		t.Skip("the device records no work")
	}
	m := newMaker(t)
	x, w := m.param(f32(64)), m.param(f32(64))
	h := x
	for range 20 {
		h = m.must(m.Binary(graph.Add, m.must(m.Reverse(h, 0)), w)) // not all in one task
	}
	testkit.OK(t, m.SetOutputs(h))
	s, err := step.OpenSession(m.Graph, exec, step.SessionOptions{})
	testkit.OK(t, err)
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in := [][]byte{make([]byte, 256), make([]byte, 256)}
	out := [][]byte{make([]byte, 256)}
	for range 3 {
		_, err := s.Run(ctx, in, out)
		testkit.OK(t, err)
	}
	wantRecorded(t, s, true)
	if n := testing.AllocsPerRun(200, func() {
		if _, err := s.Run(ctx, in, out); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a run", n)
	}
}
