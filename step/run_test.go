package step_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
	"github.com/pinion-gpu/pinion/step/host"
	"github.com/pinion-gpu/pinion/step/plan"
)

// newExecutor is the one on the processor, wherever tests run.
func newExecutor(t testing.TB) step.Executor {
	dev := testkit.Must(device.Open("host"))(t)
	t.Cleanup(func() { testkit.OK(t, dev.Close()) })
	exec := testkit.Must(host.Open(dev))(t)
	t.Cleanup(func() { testkit.OK(t, exec.Close()) })
	return exec
}

func floats(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func ExampleCompile() {
	dev, _ := device.Open("host")
	defer dev.Close()
	exec, _ := host.Open(dev)
	defer exec.Close()

	g := graph.New("square")
	x, _ := g.Parameter("x", graph.MakeShape(dtype.F32, 3))
	y, _ := g.Binary(graph.Mul, x, x)
	_ = g.SetOutputs(y)
	run, err := step.Compile(g, exec, step.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer run.Close()

	in, _ := run.Memory().Put(floats(1, 2, 3), x.Shape())
	defer in.Free()
	out, err := run.Run(context.Background(), []*step.Tensor{in}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer out[0].Free()
	b := make([]byte, 12)
	_ = out[0].Read(b)
	fmt.Println(out[0].Shape(), math.Float32frombits(binary.LittleEndian.Uint32(b[8:])))
	// Output: f32[3] 9
}

// openExecutor is one of the device that the tests run on.
func openExecutor(t testing.TB) step.Executor {
	exec := testkit.Must(auto.Open(devicetest.Open(t)))(t)
	t.Cleanup(func() { testkit.OK(t, exec.Close()) })
	return exec
}

// layers is a chain of layers with branches, and their backward passes in reverse: what
// a training step looks like. weights are donated, and their updates are results.
func layers(t testing.TB, rng *rand.Rand, count int) (m maker, donate []bool) {
	m = newMaker(t)
	n := 8 << rng.IntN(3)
	x := m.param(f32(16, n))
	var weights, acts, gates []graph.Value
	h := x
	for range count {
		w := m.param(f32(n, n))
		weights = append(weights, w)
		acts = append(acts, h)
		z := m.must(m.DotGeneral(h, w, graph.DotAxes{Contracted: [2][]int{{1}, {0}}}))
		gate := m.must(m.Unary(graph.Tanh, z))
		gates = append(gates, gate)
		h = gate
		if rng.IntN(3) == 0 {
			h = m.must(m.Binary(graph.Add, h, acts[rng.IntN(len(acts))]))
		}
		if rng.IntN(4) == 0 {
			h = m.must(m.Reshape(m.must(m.Transpose(m.must(m.Reshape(h, 4, 4, n)), 1, 0, 2)), 16, n))
		}
	}
	loss := m.must(m.Reduce(graph.ReduceSum, m.must(m.Binary(graph.Mul, h, h))))
	outputs := []graph.Value{loss}
	grad := h
	rate := m.must(m.Fill(1e-3, f32()))
	for i := count - 1; i >= 0; i-- {
		one := m.must(m.Fill(1, f32(16, n)))
		slope := m.must(m.Binary(graph.Sub, one, m.must(m.Binary(graph.Mul, gates[i], gates[i]))))
		grad = m.must(m.Binary(graph.Mul, grad, slope))
		dw := m.must(m.DotGeneral(acts[i], grad, graph.DotAxes{Contracted: [2][]int{{0}, {0}}}))
		outputs = append(outputs, m.must(m.Binary(graph.Sub, weights[i], m.must(m.Binary(graph.Mul, dw, rate)))))
		grad = m.must(m.DotGeneral(grad, weights[i], graph.DotAxes{Contracted: [2][]int{{1}, {1}}}))
	}
	outputs = append(outputs, x, grad, loss)
	testkit.OK(t, m.SetOutputs(outputs...))
	donate = make([]bool, len(m.Parameters()))
	for i := 1; i < len(donate); i++ {
		donate[i] = rng.IntN(4) > 0
	}
	return m, donate
}

// counter is an allocator that knows how much it gave out at most.
type counter struct {
	device.Device
	mu        sync.Mutex
	sizes     map[device.Ptr]int64
	now, most int64
}

func (c *counter) Alloc(n int64) (device.Ptr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.Device.Alloc(n)
	n = (n + 255) / 256 * 256
	c.sizes[p] = n
	c.now += n
	c.most = max(c.most, c.now)
	return p, err
}

func (c *counter) Free(p device.Ptr) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now -= c.sizes[p]
	return c.Device.Free(p)
}

func randomFloats(rng *rand.Rand, n int) []byte {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64()) / 4
	}
	return floats(v...)
}

// perform compiles and runs a graph twice, the second time with the results of the first
// in the place of the parameters that they update, and returns all results.
func perform(t *testing.T, m maker, exec step.Executor, o step.Options, inputs [][]byte) (results [][]byte, inPlace int, err error) {
	c := &counter{Device: exec.Device(), sizes: map[device.Ptr]int64{}}
	mem := testkit.Must(step.OpenMemory(exec.Device(), c))(t)
	o.Memory = mem
	x, err := step.Compile(m.Graph, exec, o)
	if err != nil {
		testkit.OK(t, mem.Close())
		return nil, 0, err
	}
	in := make([]*step.Tensor, len(inputs))
	for i, b := range inputs {
		in[i] = testkit.Must(mem.Put(b, m.Parameters()[i].Shape()))(t)
	}
	for range 2 {
		at := make([]device.Ptr, len(in))
		for i, v := range in {
			at[i] = v.Ptr()
		}
		out := testkit.Must(x.Run(context.Background(), in, o.Donate))(t)
		for i, v := range out {
			b := make([]byte, v.Shape().Bytes())
			testkit.OK(t, v.Read(b))
			results = append(results, b)
			// Results 1 and on are the new weights, last layer first.
			if p := len(inputs) - i; i > 0 && p > 0 && o.Donate != nil && o.Donate[p] {
				in[p] = v
				if v.Ptr() == at[p] {
					inPlace++
				}
			} else {
				testkit.OK(t, v.Free())
			}
		}
	}
	if o.Donate != nil && c.most != x.PeakBytes() {
		t.Errorf("%d bytes were allocated, and the plan says %d\n%v", c.most, x.PeakBytes(), x.Plan())
	}
	for _, v := range in {
		testkit.OK(t, v.Free())
	}
	testkit.OK(t, x.Close())
	testkit.OK(t, mem.Close())
	if c.now != 0 {
		t.Errorf("%d bytes were not freed", c.now)
	}
	return results, inPlace, nil
}

// Results are the same bits in every plan, down to the smallest budget.
func TestBudgets(t *testing.T) {
	exec := openExecutor(t)
	rng := rand.New(rand.NewPCG(3, 4))
	again, sent, inPlace, lent := 0, 0, 0, 0
	graphs := 12
	if os.Getenv("PINION_DEVICE") != "" {
		graphs = 4 // kernels are compiled for each
	}
	for i := range graphs {
		m, donate := layers(t, rng, 2+rng.IntN(6))
		var inputs [][]byte
		for _, p := range m.Parameters() {
			inputs = append(inputs, randomFloats(rng, p.Shape().Size()))
		}
		// Weights go from run to run; other results may be lent.
		lend := make([]bool, len(m.Outputs()))
		for k := range lend {
			lend[k] = (k == 0 || k >= len(donate)) && rng.IntN(2) == 0
			if lend[k] {
				lent++
			}
		}
		o := step.Options{Donate: donate}
		want, shared, err := perform(t, m, exec, o, inputs)
		testkit.OK(t, err)
		inPlace += shared
		whole := testkit.Must(step.Compile(m.Graph, exec, o))(t)
		most := whole.PeakBytes()
		if p := testkit.Must(step.Plan(m.Graph, exec, o))(t); p.Bytes != most || len(p.Runs) != len(whole.Plan().Runs) {
			t.Errorf("a plan of %d bytes, and an executable of %d", p.Bytes, most)
		}
		testkit.OK(t, whole.Close())
		if i%2 == 0 {
			o.Link = 1e9
		}
		o.Lend = lend
		for range 4 {
			o.Budget = most - rng.Int64N(most/2)
			x, err := step.Compile(m.Graph, exec, o)
			if err != nil {
				testkit.WantError(t, "a small budget", err, plan.ErrBudget)
				var impossible *plan.ImpossibleError
				errors.As(err, &impossible)
				if impossible.Found > most {
					continue
				}
				o.Budget = impossible.Found
				if x, err = step.Compile(m.Graph, exec, o); err != nil {
					continue
				}
			}
			if x.PeakBytes() > o.Budget {
				t.Errorf("%d bytes within %d", x.PeakBytes(), o.Budget)
			}
			for _, r := range x.Plan().Runs {
				if r.Again {
					again++
				}
			}
			for _, l := range x.Plan().Lives {
				if l.Sent {
					sent++
				}
			}
			testkit.OK(t, x.Close())
			got, _, err := perform(t, m, exec, o, inputs)
			testkit.OK(t, err)
			if len(got) != len(want) {
				t.Fatalf("%d results, want %d", len(got), len(want))
			}
			for k := range got {
				if !bytes.Equal(got[k], want[k]) {
					t.Errorf("graph %d, budget %d: result %d differs", i, o.Budget, k)
				}
			}
		}
	}
	if again == 0 || sent == 0 || inPlace == 0 || lent == 0 {
		t.Errorf("plans ran %d operations again and sent %d values; %d results were in place, %d lent", again, sent, inPlace, lent)
	}
	t.Logf("%d operations ran again, %d values were sent; %d results were in place", again, sent, inPlace)
}

// A result that is lent takes memory when it is written, and lies there until the next run.
func TestLend(t *testing.T) {
	exec := openExecutor(t)
	m := newMaker(t)
	p := m.param(f32(1000))
	big := m.must(m.BroadcastInDim(p, []int{100, 1000}, []int{1}))
	sum := m.must(m.Reduce(graph.ReduceSum, m.must(m.Unary(graph.Exp, m.must(m.Transpose(big, 1, 0)))), 1))
	wide := m.must(m.Transpose(m.must(m.BroadcastInDim(sum, []int{100, 1000}, []int{1})), 1, 0))
	testkit.OK(t, m.SetOutputs(wide, sum))
	_, err := step.Compile(m.Graph, exec, step.Options{Lend: []bool{true}})
	testkit.WantError(t, "Lend for one of two results", err, step.ErrArgument)
	own := testkit.Must(step.Compile(m.Graph, exec, step.Options{}))(t)
	defer own.Close()
	x := testkit.Must(step.Compile(m.Graph, exec, step.Options{Lend: []bool{true, true}}))(t)
	defer x.Close()
	if x.PeakBytes() > own.PeakBytes() {
		t.Errorf("%d bytes with results that are lent, %d without", x.PeakBytes(), own.PeakBytes())
	}
	in := testkit.Must(x.Memory().Put(make([]byte, 4000), p.Shape()))(t)
	defer in.Free()
	ctx := context.Background()
	run := func() (wide, sum *step.Tensor, data []byte) {
		out := testkit.Must(x.Run(ctx, []*step.Tensor{in}, nil))(t)
		data = make([]byte, 400_000)
		testkit.OK(t, out[0].Read(data))
		return out[0], out[1], data
	}
	first, sum1, a := run()
	want := testkit.Must(own.Run(ctx, []*step.Tensor{in}, nil))(t)
	b := make([]byte, 400_000)
	testkit.OK(t, want[0].Read(b))
	if !bytes.Equal(a, b) || a[2] == 0 && a[3] == 0 {
		t.Error("a result that is lent differs")
	}
	_, err = x.Run(ctx, []*step.Tensor{sum1}, nil)
	testkit.WantError(t, "a lent result as an input", err, step.ErrArgument, "lent")
	again, sum2, _ := run()
	if first.Ptr() != again.Ptr() {
		t.Error("it lies elsewhere the second time")
	}
	for _, v := range []*step.Tensor{first, again, sum1, sum2, want[0], want[1]} {
		testkit.OK(t, v.Free())
	}
}

func TestMeasure(t *testing.T) {
	exec := openExecutor(t)
	rng := rand.New(rand.NewPCG(5, 6))
	m, _ := layers(t, rng, 4)
	var inputs [][]byte
	for _, p := range m.Parameters() {
		inputs = append(inputs, randomFloats(rng, p.Shape().Size()))
	}
	x := testkit.Must(step.Compile(m.Graph, exec, step.Options{}))(t)
	defer x.Close()
	var in []*step.Tensor
	for i, p := range m.Parameters() {
		in = append(in, testkit.Must(x.Memory().Put(inputs[i], p.Shape()))(t))
	}
	times := testkit.Must(x.Measure(context.Background(), in))(t)
	for _, v := range in {
		testkit.OK(t, v.Free())
	}
	total := 0.0
	for _, task := range x.Tasks() {
		if s := times.Seconds(task); s < 0 || math.IsInf(s, 0) || s != s {
			t.Errorf("%v takes %v s", task, s)
		} else {
			total += s
		}
	}
	again := testkit.Must(step.Compile(m.Graph, exec, step.Options{Seconds: times.Seconds}))(t)
	defer again.Close()
	if got := again.Plan().Seconds; math.Abs(got-total) > 1e-9+total/1e6 {
		t.Errorf("the plan takes %v s, its tasks %v s", got, total)
	}
	if _, err := x.Measure(context.Background(), nil); err == nil {
		t.Error("nothing was measured without inputs")
	}
	unknown := &step.Task{Nodes: m.Nodes()[:1]}
	if got, want := times.Seconds(unknown), (step.Speed{}).Estimate(unknown); got != want {
		t.Errorf("a task that was not measured takes %v s, want %v", got, want)
	}
}

// A device that is full says what of which plan it has no room for.
func TestOutOfMemory(t *testing.T) {
	dev := testkit.Must(device.Open("host:64KiB"))(t)
	defer dev.Close()
	exec := testkit.Must(host.Open(dev))(t)
	defer exec.Close()
	m := newMaker(t)
	x := m.param(f32(100, 100))
	e := m.must(m.Unary(graph.Exp, x))
	sum := m.must(m.Reduce(graph.ReduceSum, m.must(m.DotGeneral(e, e, graph.DotAxes{Contracted: [2][]int{{1}, {1}}}))))
	testkit.OK(t, m.SetOutputs(sum))
	_, err := step.Compile(m.Graph, exec, step.Options{})
	testkit.WantError(t, "values between", err, device.ErrOutOfMemory, `graph "TestOutOfMemory"`, "for values between operations")

	m = newMaker(t)
	x = m.param(f32(100, 100))
	testkit.OK(t, m.SetOutputs(m.must(m.Unary(graph.Exp, x))))
	run := testkit.Must(step.Compile(m.Graph, exec, step.Options{}))(t)
	defer run.Close()
	in := testkit.Must(run.Memory().New(x.Shape()))(t)
	defer in.Free()
	_, err = run.Run(context.Background(), []*step.Tensor{in}, nil)
	testkit.WantError(t, "a result", err, device.ErrOutOfMemory, "result 0", "f32[100,100]")
}

// A parameter without elements may be donated like any other.
func TestDonateNothing(t *testing.T) {
	m := newMaker(t)
	testkit.OK(t, m.SetOutputs(m.must(m.Unary(graph.Neg, m.param(f32(0, 3))))))
	x := testkit.Must(step.Compile(m.Graph, openExecutor(t), step.Options{Donate: []bool{true}}))(t)
	defer x.Close()
	in := testkit.Must(x.Memory().New(f32(0, 3)))(t)
	out := testkit.Must(x.Run(context.Background(), []*step.Tensor{in}, []bool{true}))(t)
	if !in.Freed() || !out[0].Shape().Equal(f32(0, 3)) {
		t.Errorf("the result is %v", out[0].Shape())
	}
	testkit.OK(t, out[0].Free())
}
