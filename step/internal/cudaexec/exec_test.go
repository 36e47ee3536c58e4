package cudaexec

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	hostdevice "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/host"
	"github.com/pinion-gpu/pinion/step/internal/access"
)

var types = []dtype.DType{dtype.F32, dtype.F64, dtype.F16, dtype.BF16, dtype.I8, dtype.I16, dtype.I32, dtype.I64, dtype.U8, dtype.U16, dtype.U32, dtype.U64, dtype.Bool}

// builder adds to a graph until something fails.
type builder struct {
	t testing.TB
	*graph.Graph
	rng *rand.Rand
	in  [][]byte
}

func newBuilder(t testing.TB) *builder {
	return &builder{t, graph.New(t.Name()), rand.New(rand.NewPCG(1, 2)), nil}
}

func (b *builder) ok(v graph.Value, err error) graph.Value {
	b.t.Helper()
	testkit.OK(b.t, err)
	return v
}

// put adds a parameter with that content.
func (b *builder) put(d dtype.DType, content []float64, dims ...int) graph.Value {
	b.t.Helper()
	data := bytesOf(d, content)
	b.in = append(b.in, data)
	return b.ok(b.Parameter(fmt.Sprintf("p%d", len(b.in)), graph.MakeShape(d, dims...)))
}

// random adds a parameter of small integers, and halves of them where there are any.
func (b *builder) random(d dtype.DType, dims ...int) graph.Value {
	b.t.Helper()
	x := make([]float64, graph.MakeShape(d, dims...).Size())
	for i := range x {
		x[i] = float64(b.rng.IntN(9) - 4)
		if d.IsFloat() {
			x[i] /= 2
		} else if d == dtype.Bool {
			x[i] = float64(b.rng.IntN(2))
		}
	}
	return b.put(d, x, dims...)
}

func (b *builder) binary(op graph.Op, x, y graph.Value) graph.Value {
	b.t.Helper()
	return b.ok(b.Binary(op, x, y))
}

func (b *builder) unary(op graph.Op, x graph.Value) graph.Value {
	b.t.Helper()
	return b.ok(b.Unary(op, x))
}

func bytesOf(d dtype.DType, content []float64) []byte {
	data := make([]byte, len(content)*d.Size())
	for i, x := range content {
		var bits uint64
		switch d {
		case dtype.F64:
			bits = math.Float64bits(x)
		case dtype.F32:
			bits = uint64(math.Float32bits(float32(x)))
		case dtype.F16:
			bits = uint64(float16.ToF16(float32(x)))
		case dtype.BF16:
			bits = uint64(float16.ToBF16(float32(x)))
		case dtype.U64:
			bits = uint64(int64(x))
			if x >= 1<<63 {
				bits = uint64(x)
			}
		default:
			bits = uint64(int64(x))
		}
		for j := range d.Size() {
			data[i*d.Size()+j] = byte(bits >> (8 * j))
		}
	}
	return data
}

func element(d dtype.DType, data []byte, i int) (f float64, bits uint64) {
	for j := range d.Size() {
		bits |= uint64(data[i*d.Size()+j]) << (8 * j)
	}
	switch d {
	case dtype.F64:
		f = math.Float64frombits(bits)
	case dtype.F32:
		f = float64(math.Float32frombits(uint32(bits)))
	case dtype.F16:
		f = float64(float16.FromF16(uint16(bits)))
	case dtype.BF16:
		f = float64(float16.FromBF16(uint16(bits)))
	}
	return f, bits
}

// singles are the operations of a graph, each a task by itself.
func singles(g *graph.Graph) []*step.Task {
	var tasks []*step.Task
	for _, n := range g.Nodes() {
		if n.Op == graph.Parameter || n.Op == graph.Constant || n.Op.Class() == graph.View && n.Op != graph.Identity {
			continue
		}
		task := &step.Task{Nodes: []*graph.Node{n}, Inputs: n.Inputs}
		for i := range n.Shapes {
			task.Outputs = append(task.Outputs, n.Value(i))
		}
		tasks = append(tasks, task)
	}
	return tasks
}

func memoryOf(v graph.Value) graph.Value {
	for access.IsView(v) {
		v = v.Node().Inputs[access.OperandOf(v)]
	}
	return v
}

// prepared are tasks that can run, with memory for each value.
type prepared struct {
	t      testing.TB
	dev    device.Device
	stream device.Stream
	tasks  []*step.Task
	calls  []prepared1
	at     map[graph.Value]device.Ptr
	held   []device.Ptr
}

type prepared1 struct {
	k       step.Kernel
	in, out []device.Ptr
	scratch device.Ptr
}

func prepare(t testing.TB, e step.Executor, g *graph.Graph, tasks []*step.Task, in [][]byte) *prepared {
	t.Helper()
	p := &prepared{t: t, dev: e.Device(), tasks: tasks, at: map[graph.Value]device.Ptr{}}
	p.stream = testkit.Must(p.dev.NewStream())(t)
	alloc := func(n int64) device.Ptr {
		at := testkit.Must(p.dev.Alloc(max(n, 64)))(t)
		p.held = append(p.held, at)
		return at
	}
	used := map[graph.Value]bool{}
	for _, task := range tasks {
		for _, v := range append(task.Inputs, task.Outputs...) {
			used[memoryOf(v)] = true
		}
	}
	for _, v := range g.Outputs() {
		used[memoryOf(v)] = true
	}
	for _, n := range g.Nodes() {
		for i := range n.Shapes {
			v := n.Value(i)
			if memoryOf(v) != v || !used[v] {
				continue
			}
			p.at[v] = alloc(v.Shape().Bytes())
			var data []byte
			switch a := n.Attr.(type) {
			case *graph.Input:
				data = in[a.Index]
			case graph.Data:
				data = a
			}
			if len(data) > 0 {
				testkit.OK(t, p.stream.CopyH2D(p.at[v], data))
			}
		}
	}
	var scratch int64
	for _, task := range tasks {
		k, err := e.Compile(task)
		if err != nil {
			t.Fatalf("%v: %v", task.Nodes, err)
		}
		c := prepared1{k: k}
		for _, v := range task.Inputs {
			c.in = append(c.in, p.at[memoryOf(v)])
		}
		for _, v := range task.Outputs {
			c.out = append(c.out, p.at[memoryOf(v)])
		}
		scratch = max(scratch, k.Scratch())
		p.calls = append(p.calls, c)
	}
	at := alloc(scratch)
	for i := range p.calls {
		p.calls[i].scratch = at
	}
	testkit.OK(t, p.stream.Synchronize())
	return p
}

func (p *prepared) launch() {
	for i, c := range p.calls {
		if err := c.k.Launch(p.stream, c.in, c.out, c.scratch); err != nil {
			p.t.Fatalf("%v: %v", p.tasks[i].Nodes, err)
		}
	}
}

// profile tells which tasks take the time.
func (p *prepared) profile() {
	type row struct {
		name  string
		took  time.Duration
		bytes int64
	}
	var rows []row
	var total time.Duration
	for i, c := range p.calls {
		begin, end := testkit.Must(p.dev.NewEvent(0))(p.t), testkit.Must(p.dev.NewEvent(0))(p.t)
		r := row{took: time.Hour}
		for range 3 {
			testkit.OK(p.t, p.stream.Record(begin))
			testkit.OK(p.t, c.k.Launch(p.stream, c.in, c.out, c.scratch))
			testkit.OK(p.t, p.stream.Record(end))
			testkit.OK(p.t, p.stream.Synchronize())
			r.took = min(r.took, testkit.Must(end.Since(begin))(p.t))
		}
		task := p.tasks[i]
		for _, n := range task.Nodes {
			r.name += n.Op.String() + " "
		}
		for _, v := range append(slices.Clone(task.Inputs), task.Outputs...) {
			r.bytes += v.Shape().Bytes()
			r.name += fmt.Sprint(" ", v.Shape())
		}
		rows, total = append(rows, r), total+r.took
		testkit.OK(p.t, begin.Close())
		testkit.OK(p.t, end.Close())
	}
	slices.SortStableFunc(rows, func(a, b row) int { return int(b.took - a.took) })
	for _, r := range rows {
		p.t.Logf("%8.3f ms %5.1f %% %6.0f GB/s %s", r.took.Seconds()*1e3, 100*r.took.Seconds()/total.Seconds(), float64(r.bytes)/r.took.Seconds()/1e9, r.name)
	}
	p.t.Logf("%8.3f ms in all", total.Seconds()*1e3)
}

func (p *prepared) close() {
	for _, at := range p.held {
		testkit.OK(p.t, p.dev.Free(at))
	}
	testkit.OK(p.t, p.stream.Close())
}

// run runs tasks, and returns the graph's outputs.
func run(t testing.TB, e step.Executor, g *graph.Graph, tasks []*step.Task, in [][]byte) [][]byte {
	t.Helper()
	return prepare(t, e, g, tasks, in).run(g)
}

// run runs the tasks once.
func (p *prepared) run(g *graph.Graph) [][]byte {
	p.t.Helper()
	p.launch()
	results := p.read(g)
	p.close()
	return results
}

// read returns the graph's outputs, as they are when the stream is done.
func (p *prepared) read(g *graph.Graph) (results [][]byte) {
	p.t.Helper()
	for _, v := range g.Outputs() {
		data := make([]byte, v.Shape().Bytes())
		if len(data) > 0 {
			testkit.OK(p.t, p.stream.CopyD2H(data, p.at[memoryOf(v)]))
		}
		results = append(results, data)
	}
	testkit.OK(p.t, p.stream.Synchronize())
	return results
}

func reference(t testing.TB) step.Executor {
	t.Helper()
	dev := testkit.Must(hostdevice.Open(4 << 30))(t)
	e := testkit.Must(host.Open(dev))(t)
	t.Cleanup(func() { testkit.OK(t, errors.Join(e.Close(), dev.Close())) })
	return e
}

// compare fails unless the graph's outputs are what the host executor makes of it: the
// same integers, and numbers that are as near as their type and a few operations allow.
func (b *builder) compare(e *executor, slack float64, outputs ...graph.Value) {
	b.t.Helper()
	b.compared(e, slack, outputs...)(b.t)
}

// compared is compare in two parts: kernels of several graphs are compiled together when
// the first of them runs.
func (b *builder) compared(e *executor, slack float64, outputs ...graph.Value) func(t testing.TB) {
	b.t.Helper()
	testkit.OK(b.t, b.SetOutputs(outputs...))
	want := run(b.t, reference(b.t), b.Graph, singles(b.Graph), b.in)
	fused, err := e.Fuse(b.Graph)
	testkit.OK(b.t, err)
	ways := map[string]*prepared{"fused": prepare(b.t, e, b.Graph, fused, b.in)}
	if len(outputs) < 50 {
		ways["each"] = prepare(b.t, e, b.Graph, singles(b.Graph), b.in)
	}
	return func(t testing.TB) {
		for name, p := range ways {
			got := p.run(b.Graph)
			for i, v := range outputs {
				wrong := 0
				for j := range v.Shape().Size() {
					g, gbits := element(v.Shape().Type, got[i], j)
					w, wbits := element(v.Shape().Type, want[i], j)
					if near(v.Shape().Type, g, w, slack) && (v.Shape().Type.IsFloat() || gbits == wbits) {
						continue
					}
					if wrong++; wrong < 4 {
						t.Errorf("%s: output %d (%v), element %d of %v: %v (%x), want %v (%x)", name, i, v.Node(), j, v.Shape(), g, gbits, w, wbits)
					}
				}
				if wrong > 3 {
					t.Errorf("%s: output %d: %d elements are wrong", name, i, wrong)
				}
			}
		}
	}
}

// checks are comparisons that run when all are prepared.
type checks []func(t *testing.T)

func (c *checks) add(name string, check func(t testing.TB)) {
	*c = append(*c, func(t *testing.T) { t.Run(name, func(t *testing.T) { check(t) }) })
}

func (c checks) run(t *testing.T) {
	for _, check := range c {
		check(t)
	}
}

func near(d dtype.DType, got, want, slack float64) bool {
	if got == want || got != got && want != want {
		return true
	}
	tolerance := map[dtype.DType]float64{dtype.F64: 1e-14, dtype.F32: 1e-6, dtype.F16: 1.0 / 1024, dtype.BF16: 1.0 / 128}[d]
	return math.Abs(got-want) <= slack*tolerance*math.Max(1, math.Abs(want))
}

var floats = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -3, 7.25, 100.5, -100.5, 1e-3, -1e-3, 300, -300, 65000, -65000, 1e-7,
	3e9, -3e9, 1e19, -1e19, 3e38, math.Inf(1), math.Inf(-1), math.NaN()}

var integers = []float64{0, 1, -1, 2, -2, 3, 5, 7, -7, 8, 31, 32, 63, 64, 100, 127, -128, 128, 255, 1000, 32767, -32768, 65535, 1 << 30, math.MaxInt32, math.MinInt32,
	1 << 40, -(1 << 40), math.MinInt64}

func valuesOf(d dtype.DType) []float64 {
	switch {
	case d.IsFloat():
		return floats
	case d == dtype.Bool:
		return []float64{0, 1}
	}
	return integers
}

// Every element-wise operation, of every type that it takes, of all pairs of awkward
// numbers.
func TestElementwise(t *testing.T) {
	testkit.OnlyComputes(t)
	e := openTest(t)
	var all checks
	for _, d := range types {
		b := newBuilder(t)
		var xs, ys []float64
		for _, x := range valuesOf(d) {
			for _, y := range valuesOf(d) {
				xs, ys = append(xs, x), append(ys, y)
			}
		}
		b.in = nil
		x, y := b.put(d, xs, len(xs)), b.put(d, ys, len(ys))
		var outputs []graph.Value
		for op := graph.Abs; op <= graph.GreaterOrEqualTotalOrder; op++ {
			var v graph.Value
			var err error
			if op <= graph.IsNaN {
				v, err = b.Unary(op, x)
			} else {
				v, err = b.Binary(op, x, y)
			}
			if err == nil {
				outputs = append(outputs, v)
			}
		}
		for _, to := range types {
			if to != d {
				outputs = append(outputs, b.ok(b.Convert(x, to)))
			}
		}
		outputs = append(outputs, b.ok(b.Where(b.ok(b.Binary(graph.Equal, x, y)), x, y)))
		all.add(d.String(), b.compared(e, 8, outputs...))
	}
	all.run(t)
}

func TestBroadcasting(t *testing.T) {
	e := openTest(t)
	b := newBuilder(t)
	x, y, z := b.random(dtype.F32, 6, 64), b.random(dtype.F32, 6, 1), b.random(dtype.F32)
	row := b.random(dtype.F32, 64)
	wide := b.ok(b.BroadcastInDim(row, []int{6, 64}, []int{1}))
	constant := b.ok(b.Fill(1.5, graph.MakeShape(dtype.F32, 6, 64)))
	a := b.binary(graph.Add, b.binary(graph.Mul, x, y), z)
	c := b.binary(graph.Add, b.binary(graph.Mul, a, wide), constant)
	iota := b.ok(b.Iota(graph.MakeShape(dtype.I32, 6, 64), 1))
	mask := b.binary(graph.Less, iota, b.ok(b.Fill(10, graph.MakeShape(dtype.I32))))
	masked := b.ok(b.Where(mask, c, b.ok(b.Fill(-1, graph.MakeShape(dtype.F32)))))
	odd := b.random(dtype.BF16, 3, 7, 5)
	half := b.ok(b.Convert(odd, dtype.F32))
	half = b.binary(graph.Mul, half, b.random(dtype.F32, 3, 1, 5))
	b.compare(e, 1, c, masked, b.ok(b.Convert(half, dtype.F16)), b.ok(b.Iota(graph.MakeShape(dtype.BF16, 3, 300), 1)))
}

func TestMovement(t *testing.T) {
	e := openTest(t)
	var all checks
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16, dtype.U8, dtype.I64} {
		b := newBuilder(t)
		x := b.random(d, 5, 40, 33)
		y := b.random(d, 4, 6)
		n := b.put(dtype.I32, []float64{3})
		far := b.put(dtype.I32, []float64{-100})
		fill := b.random(d)
		outputs := []graph.Value{
			b.ok(b.Transpose(x, 0, 2, 1)), b.ok(b.Transpose(x, 2, 1, 0)), b.ok(b.Transpose(x, 1, 0, 2)), b.ok(b.Transpose(x, 1, 2, 0)), b.ok(b.Transpose(y, 1, 0)),
			b.ok(b.Reverse(y, 1)), b.ok(b.Reverse(x, 0, 2)),
			b.ok(b.Slice(x, []int{1, 3, 0}, []int{5, 39, 33}, []int{2, 1, 5})),
			b.ok(b.Pad(y, fill, graph.Padding{Low: []int{1, -1}, High: []int{-2, 3}, Interior: []int{2, 0}})),
			b.ok(b.Concatenate(1, y, b.random(d, 4, 3), b.random(d, 4, 0), y)),
			b.ok(b.DynamicSlice(y, []graph.Value{n, far}, []int{2, 3})),
			b.ok(b.DynamicUpdateSlice(y, b.random(d, 2, 2), []graph.Value{n, n})),
			b.ok(b.Reshape(b.ok(b.Transpose(y, 1, 0)), 2, 12)),
			b.ok(b.Gather(x, b.put(dtype.I64, []float64{4, 0, -3, 100}, 4), graph.GatherAxes{IndexVector: 1, StartIndex: []int{0}, Sizes: []int{1, 40, 33}, Collapsed: []int{0}, Offset: []int{1, 2}})),
			b.ok(b.Gather(x, b.put(dtype.U8, []float64{4, 0, 30, 1, 2, 3}, 2, 3), graph.GatherAxes{IndexVector: 0, StartIndex: []int{2, 0}, Sizes: []int{1, 7, 4}, Collapsed: []int{0}, Offset: []int{0, 2}})),
		}
		all.add(d.String(), b.compared(e, 0, outputs...))
	}
	all.run(t)
	t.Run("bitcast", func(t *testing.T) {
		b := newBuilder(t)
		x := b.random(dtype.F32, 4, 6)
		y := b.ok(b.Bitcast(b.unary(graph.Neg, x), dtype.U32))
		bytes := b.ok(b.Bitcast(b.unary(graph.Neg, x), dtype.U8))
		b.compare(e, 0, b.binary(graph.Add, y, y), b.binary(graph.Add, bytes, bytes))
	})
}

func TestReductions(t *testing.T) {
	testkit.OnlyComputes(t)
	e := openTest(t)
	var all checks
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16, dtype.F64, dtype.I32, dtype.U8, dtype.Bool} {
		b := newBuilder(t)
		var outputs []graph.Value
		for _, c := range []struct{ dims, axes []int }{
			{[]int{70, 96}, []int{1}}, {[]int{70, 96}, []int{0}}, {[]int{3, 2000}, nil}, {[]int{4, 6, 10, 7}, []int{0, 2, 3}},
			{[]int{4, 6, 10, 7}, []int{1}}, {[]int{2, 5000}, []int{1}}, {[]int{3000, 3}, []int{0}}, {[]int{5, 1, 4}, []int{1}}, {[]int{3, 0}, []int{1}}, {[]int{9, 5}, []int{1}}, {[]int{9, 2000}, []int{1}},
		} {
			if d != dtype.F32 && size(c.dims) > 6000 {
				continue
			}
			x := b.random(d, c.dims...)
			for op := graph.ReduceSum; op <= graph.ReduceXor; op++ {
				if op == graph.ReduceProduct && size(c.dims) > 300 && d != dtype.Bool {
					continue
				}
				if v, err := b.Reduce(op, x, c.axes...); err == nil {
					outputs = append(outputs, v)
				}
			}
			if len(c.axes) == 1 && c.dims[c.axes[0]] > 0 && d != dtype.Bool {
				outputs = append(outputs, b.ok(b.ArgMinMax(graph.ArgMax, x, c.axes[0], dtype.I32)), b.ok(b.ArgMinMax(graph.ArgMin, x, c.axes[0], dtype.U8)))
			}
		}
		all.add(d.String(), b.compared(e, 4, outputs...))
	}
	all.run(t)
	t.Run("NaN", func(t *testing.T) {
		b := newBuilder(t)
		x := b.put(dtype.F32, []float64{1, math.NaN(), 3, 4, math.Inf(1), 2, math.Copysign(0, -1), 0, 0}, 3, 3)
		b.compare(e, 0, b.ok(b.Reduce(graph.ReduceMax, x, 1)), b.ok(b.Reduce(graph.ReduceMin, x, 0)), b.ok(b.ArgMinMax(graph.ArgMax, x, 1, dtype.I64)), b.ok(b.ArgMinMax(graph.ArgMin, x, 0, dtype.I64)))
	})
}

// softmax of x along its last axis.
func (b *builder) softmax(x graph.Value) graph.Value {
	dims := x.Shape().Dims
	var outer []int
	for i := range len(dims) - 1 {
		outer = append(outer, i)
	}
	wide := func(v graph.Value) graph.Value { return b.ok(b.BroadcastInDim(v, dims, outer)) }
	top := b.ok(b.Reduce(graph.ReduceMax, x, len(dims)-1))
	e := b.unary(graph.Exp, b.binary(graph.Sub, x, wide(top)))
	return b.binary(graph.Div, e, wide(b.ok(b.Reduce(graph.ReduceSum, e, len(dims)-1))))
}

// norm is a layer normalisation of x along its last axis.
func (b *builder) norm(x, scale, offset graph.Value) graph.Value {
	dims := x.Shape().Dims
	last := len(dims) - 1
	var outer []int
	for i := range last {
		outer = append(outer, i)
	}
	wide := func(v graph.Value) graph.Value { return b.ok(b.BroadcastInDim(v, dims, outer)) }
	along := func(v graph.Value) graph.Value { return b.ok(b.BroadcastInDim(v, dims, []int{last})) }
	n := b.ok(b.Fill(1/float64(dims[last]), graph.MakeShape(dtype.F32)))
	mean := b.binary(graph.Mul, b.ok(b.Reduce(graph.ReduceSum, x, last)), n)
	centred := b.binary(graph.Sub, x, wide(mean))
	variance := b.binary(graph.Mul, b.ok(b.Reduce(graph.ReduceSum, b.binary(graph.Mul, centred, centred), last)), n)
	inverse := b.unary(graph.Rsqrt, b.binary(graph.Add, variance, b.ok(b.Fill(1e-5, graph.MakeShape(dtype.F32)))))
	y := b.binary(graph.Mul, centred, wide(inverse))
	return b.binary(graph.Add, b.binary(graph.Mul, y, along(scale)), along(offset))
}

// A softmax and a normalisation are one kernel each.
func TestRows(t *testing.T) {
	testkit.OnlyComputes(t)
	e := openTest(t)
	for _, columns := range []int{5, 33, 64, 300, 2000, 2048} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			b := newBuilder(t)
			x := b.random(dtype.F32, 7, 3, columns)
			s := b.softmax(b.binary(graph.Mul, x, b.random(dtype.F32)))
			n := b.norm(b.ok(b.Reshape(x, 21, columns)), b.random(dtype.F32, columns), b.random(dtype.F32, columns))
			n = b.ok(b.Convert(n, dtype.BF16))
			b.compare(e, 8, s, n)
			tasks, err := Fuse(b.Graph)
			testkit.OK(t, err)
			if len(tasks) != 2 {
				t.Errorf("%d tasks for a softmax and a normalisation: %v", len(tasks), tasks)
			}
		})
	}
}

func TestProducts(t *testing.T) {
	e := openTest(t)
	var all checks
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16, dtype.F16, dtype.F64, dtype.I32} {
		b := newBuilder(t)
		x, w := b.random(d, 12, 16), b.random(d, 16, 8)
		var outputs []graph.Value
		dot := func(x, y graph.Value, a graph.DotAxes) { outputs = append(outputs, b.ok(b.DotGeneral(x, y, a))) }
		dot(x, w, graph.DotAxes{Contracted: [2][]int{{1}, {0}}})
		dot(x, b.ok(b.Transpose(b.random(d, 8, 16), 1, 0)), graph.DotAxes{Contracted: [2][]int{{1}, {0}}})
		dot(b.random(d, 16, 12), w, graph.DotAxes{Contracted: [2][]int{{0}, {0}}})
		dot(b.unary(graph.Abs, x), w, graph.DotAxes{Contracted: [2][]int{{1}, {0}}})
		q, k := b.random(d, 2, 10, 3, 4), b.random(d, 2, 10, 3, 4) // batch, time, heads, width
		dot(b.ok(b.Transpose(q, 0, 2, 1, 3)), b.ok(b.Transpose(k, 0, 2, 1, 3)), graph.DotAxes{Contracted: [2][]int{{3}, {3}}, Batch: [2][]int{{0, 1}, {0, 1}}})
		dot(b.ok(b.Transpose(q, 2, 0, 1, 3)), b.ok(b.Transpose(k, 2, 0, 1, 3)), graph.DotAxes{Contracted: [2][]int{{3}, {3}}, Batch: [2][]int{{0, 1}, {0, 1}}})
		dot(b.random(d, 2, 3, 5, 4), b.random(d, 2, 3, 4, 6), graph.DotAxes{Contracted: [2][]int{{3}, {2}}, Batch: [2][]int{{0, 1}, {0, 1}}})
		dot(q, k, graph.DotAxes{Contracted: [2][]int{{0, 1}, {0, 1}}})
		dot(q, k, graph.DotAxes{Contracted: [2][]int{{1, 3}, {1, 3}}, Batch: [2][]int{{0}, {0}}})
		dot(b.random(d, 7), b.random(d, 7), graph.DotAxes{Contracted: [2][]int{{0}, {0}}})
		dot(b.random(d, 7), b.random(d, 5), graph.DotAxes{})
		dot(b.random(d, 3, 0), b.random(d, 0, 2), graph.DotAxes{Contracted: [2][]int{{1}, {0}}})
		if d == dtype.BF16 || d == dtype.F16 {
			dot(x, w, graph.DotAxes{Contracted: [2][]int{{1}, {0}}, Result: dtype.F32})
		}
		all.add(d.String(), b.compared(e, 8, outputs...))
	}
	all.run(t)
}

// tuner is a BLAS that measures nothing, but multiplies as if it did.
type tuner struct {
	blas.BLAS
	tuned []blas.Gemm
}

func (u *tuner) Tune(s device.Stream, g blas.Gemm) error {
	u.tuned = append(u.tuned, g)
	return u.Gemm(s, g)
}

// TestTuning: each kind of product is tuned once, on memory that suits it.
func TestTuning(t *testing.T) {
	e := openTest(t)
	u := &tuner{BLAS: e.blas}
	e.blas = u
	if !e.tune() {
		t.Fatal("a tuner is none")
	}
	b := newBuilder(t)
	x, w := b.random(dtype.F32, 12, 16), b.random(dtype.F32, 16, 8)
	dot := func(x, y graph.Value) graph.Value {
		return b.ok(b.DotGeneral(x, y, graph.DotAxes{Contracted: [2][]int{{1}, {0}}}))
	}
	b.compare(e, 8, dot(x, w), dot(b.unary(graph.Abs, x), w), dot(w, b.random(dtype.F32, 8, 4)))
	if len(u.tuned) != 2 {
		t.Errorf("%d of 2 kinds were tuned: %v", len(u.tuned), u.tuned)
	}
	for _, g := range u.tuned {
		testkit.OK(t, g.Check())
	}
}

// TestBatches: a product of batches is as few launches as its strides allow.
func TestBatches(t *testing.T) {
	e := openTest(t)
	b := newBuilder(t)
	heads := func(dims ...int) graph.Value { // of [batch, time, heads, width]
		return b.ok(b.Transpose(b.random(dtype.BF16, dims...), 0, 2, 1, 3))
	}
	dot := func(x, y graph.Value) graph.Value {
		return b.ok(b.DotGeneral(x, y, graph.DotAxes{Contracted: [2][]int{{3}, {3}}, Batch: [2][]int{{0, 1}, {0, 1}}}))
	}
	plain := func(dims ...int) graph.Value { return b.random(dtype.BF16, dims...) }
	for i, test := range []struct {
		v               graph.Value
		launches, batch int64
	}{
		{dot(heads(8, 5, 16, 4), heads(8, 5, 16, 4)), 8, 16},
		{dot(heads(16, 5, 8, 4), heads(16, 5, 8, 4)), 8, 16},
		{dot(plain(4, 3, 5, 8), plain(4, 3, 6, 8)), 1, 12},
		{dot(plain(4, 3, 5, 8), heads(4, 6, 3, 8)), 3, 4},
		{dot(heads(1, 5, 6, 8), heads(1, 7, 6, 8)), 1, 6},
		{dot(heads(7, 5, 1, 8), heads(7, 9, 1, 8)), 1, 7},
		{dot(plain(1, 1, 5, 8), plain(1, 1, 6, 8)), 1, 0},
	} {
		testkit.OK(t, b.SetOutputs(test.v))
		tasks, err := Fuse(b.Graph)
		testkit.OK(t, err)
		if len(tasks) != 1 {
			t.Fatalf("%d: %d tasks", i, len(tasks))
		}
		k, ok := e.product(tasks[0])
		if !ok {
			t.Fatalf("%d is not the library's", i)
		}
		if int64(len(k.offsets)) != test.launches || k.gemm.Batch != test.batch {
			t.Errorf("%d: %d launches of %d products, want %d of %d", i, len(k.offsets), k.gemm.Batch, test.launches, test.batch)
		}
	}
}

func TestScatter(t *testing.T) {
	testkit.OnlyComputes(t)
	e := openTest(t)
	var all checks
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16, dtype.I32} {
		b := newBuilder(t)
		var outputs []graph.Value
		for op := graph.ScatterSum; op <= graph.ScatterMin; op++ {
			table := b.random(d, 6, 37)
			index := make([]float64, 700)
			for i := range index {
				index[i] = float64(b.rng.IntN(8) - 1)
			}
			rows := b.put(dtype.I32, index, 700)
			outputs = append(outputs, b.ok(b.Scatter(op, table, rows, b.random(d, 700, 37), graph.ScatterAxes{IndexVector: 1, StartIndex: []int{0}, Window: []int{1}, Inserted: []int{0}})))
			// Windows that overlap.
			outputs = append(outputs, b.ok(b.Scatter(op, table, b.put(dtype.I64, []float64{0, 3, 1, 4, 5, 30, 2, 31}, 4, 2), b.random(d, 2, 4, 3),
				graph.ScatterAxes{IndexVector: 1, StartIndex: []int{0, 1}, Window: []int{0, 2}})))
			outputs = append(outputs, b.ok(b.Scatter(op, table, b.put(dtype.I64, []float64{2}), b.random(d, 37), graph.ScatterAxes{IndexVector: 0, StartIndex: []int{0}, Window: []int{0}, Inserted: []int{0}})))
		}
		all.add(d.String(), b.compared(e, 8, outputs...))
	}
	all.run(t)
}

func TestWindows(t *testing.T) {
	e := openTest(t)
	var all checks
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16, dtype.I32} {
		b := newBuilder(t)
		x := b.random(d, 2, 9, 8, 3)
		pool := graph.Windows{Dims: []int{1, 3, 2, 1}, Strides: []int{1, 2, 2, 1}, Low: []int{0, 1, 0, 0}, High: []int{0, 1, 0, 0}}
		var outputs []graph.Value
		for op := graph.ReduceSum; op <= graph.ReduceMin; op++ {
			w := pool
			w.Reduction = op
			outputs = append(outputs, b.ok(b.ReduceWindow(x, w)))
		}
		outputs = append(outputs, b.ok(b.ReduceWindow(x, graph.Windows{Reduction: graph.ReduceSum, Dims: []int{1, 2, 2, 1}, Strides: []int{1, 1, 2, 1}, Dilation: []int{1, 2, 1, 1}, WindowDilation: []int{1, 1, 3, 1}})))
		source := b.random(d, 2, 5, 4, 3)
		outputs = append(outputs, b.ok(b.SelectAndScatter(graph.SelectAndScatterMax, x, source, pool)), b.ok(b.SelectAndScatter(graph.SelectAndScatterMin, x, source, pool)))
		all.add(d.String(), b.compared(e, 8, outputs...))
	}
	all.run(t)
}

// Convolutions by kernels of our own.
func TestConvolutions(t *testing.T) {
	e := openTest(t)
	e.library = func() (library, error) { return nil, device.ErrNotSupported }
	var all checks
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16, dtype.I32} {
		b := newBuilder(t)
		nhwc := graph.ConvAxes{ImageBatch: 0, ImageChannels: 3, ImageSpatial: []int{1, 2}, KernelInput: 2, KernelOutput: 3, KernelSpatial: []int{0, 1}, ResultBatch: 0, ResultChannels: 3, ResultSpatial: []int{1, 2}}
		var outputs []graph.Value
		conv := func(x, k graph.Value, change func(a *graph.ConvAxes)) {
			a := nhwc
			change(&a)
			outputs = append(outputs, b.ok(b.ConvGeneral(x, k, a)))
		}
		x := b.random(d, 4, 7, 6, 4)
		conv(x, b.random(d, 3, 2, 4, 6), func(a *graph.ConvAxes) { a.Low, a.High = []int{1, 0}, []int{1, 1} })
		conv(x, b.random(d, 3, 2, 4, 6), func(a *graph.ConvAxes) { a.Strides, a.KernelDilation = []int{2, 1}, []int{2, 1} })
		conv(x, b.random(d, 3, 3, 4, 6), func(a *graph.ConvAxes) { a.Dilation = []int{2, 3} })
		conv(x, b.random(d, 2, 2, 2, 6), func(a *graph.ConvAxes) { a.ChannelGroups = 2 })
		conv(x, b.random(d, 2, 2, 4, 6), func(a *graph.ConvAxes) { a.BatchGroups = 2 })
		conv(b.random(d, 2, 4, 7, 6), b.random(d, 5, 4, 1, 1), func(a *graph.ConvAxes) {
			a.ImageChannels, a.ImageSpatial = 1, []int{2, 3}
			a.KernelInput, a.KernelOutput, a.KernelSpatial = 1, 0, []int{2, 3}
			a.ResultChannels, a.ResultSpatial = 1, []int{2, 3}
		})
		if d == dtype.F32 { // more than one tile in each direction
			conv(b.random(d, 2, 9, 8, 20), b.random(d, 3, 3, 20, 70), func(a *graph.ConvAxes) { a.Low, a.High = []int{1, 1}, []int{1, 1} })
			conv(b.random(d, 2, 9, 8, 6), b.random(d, 3, 3, 2, 210), func(a *graph.ConvAxes) { a.ChannelGroups = 3 })
		}
		all.add(d.String(), b.compared(e, 8, outputs...))
	}
	all.run(t)
}

func TestRandomBits(t *testing.T) {
	e := openTest(t)
	b := newBuilder(t)
	state := b.put(dtype.U64, []float64{12345, -2, 7}, 3) // the counter's low half wraps around
	var outputs []graph.Value
	for _, d := range []dtype.DType{dtype.U8, dtype.U16, dtype.U32, dtype.U64, dtype.I32, dtype.F32} {
		for _, n := range []int{1, 77, 512} {
			next, bits, err := b.RNGBitGenerator(state, graph.MakeShape(d, n))
			testkit.OK(t, err)
			if d.IsFloat() {
				bits = b.ok(b.Bitcast(bits, dtype.U32))
			}
			outputs = append(outputs, next, bits)
		}
	}
	b.compare(e, 0, outputs...)
}

// Graphs of random operations on small integers, which are exact in every type.
func TestRandomGraphs(t *testing.T) {
	e := openTest(t)
	var all checks
	for seed := range uint64(12) {
		b := newBuilder(t)
		b.rng = rand.New(rand.NewPCG(seed, 3))
		d := []dtype.DType{dtype.F32, dtype.I32, dtype.F64, dtype.I64}[seed%4]
		rows, columns := 1+b.rng.IntN(80), 1+b.rng.IntN(80)
		if seed%3 == 0 {
			columns = 256
		}
		whole := []graph.Value{b.random(d, rows, columns), b.random(d, rows, columns)}
		ones := []graph.Value{b.random(d, rows)}
		pick := func(from []graph.Value) graph.Value { return from[b.rng.IntN(len(from))] }
		two := b.ok(b.Fill(2, graph.MakeShape(d)))
		small := func(v graph.Value) graph.Value { // between -8 and 8
			return b.ok(b.Clamp(b.ok(b.Fill(-8, graph.MakeShape(d))), v, b.ok(b.Fill(8, graph.MakeShape(d)))))
		}
		for range 14 {
			switch b.rng.IntN(9) {
			case 0:
				whole = append(whole, small(b.binary(graph.Add, pick(whole), pick(whole))))
			case 1:
				whole = append(whole, small(b.binary(graph.Mul, pick(whole), pick(whole))))
			case 2:
				whole = append(whole, b.binary(graph.Max, pick(whole), two))
			case 3:
				whole = append(whole, b.ok(b.Where(b.binary(graph.Less, pick(whole), pick(whole)), pick(whole), pick(whole))))
			case 4:
				op := []graph.Op{graph.ReduceSum, graph.ReduceMax, graph.ReduceMin}[b.rng.IntN(3)]
				ones = append(ones, small(b.ok(b.Reduce(op, pick(whole), 1))))
			case 5:
				whole = append(whole, b.ok(b.BroadcastInDim(pick(ones), []int{rows, columns}, []int{0})))
			case 6:
				ones = append(ones, b.unary(graph.Neg, pick(ones)))
			case 7:
				x := b.ok(b.Transpose(pick(whole), 1, 0))
				whole = append(whole, b.ok(b.Reverse(b.ok(b.Transpose(b.unary(graph.Abs, x), 1, 0)), 0)))
			case 8:
				x := b.ok(b.Reduce(graph.ReduceSum, pick(whole), 0))
				whole = append(whole, small(b.ok(b.BroadcastInDim(x, []int{rows, columns}, []int{1}))))
			}
		}
		outputs := []graph.Value{whole[len(whole)-1], ones[len(ones)-1], pick(whole), pick(ones)}
		all.add(fmt.Sprint(seed), b.compared(e, 0, outputs...))
	}
	all.run(t)
}

// What kernels look like.
func TestText(t *testing.T) {
	b := newBuilder(t)
	x, y := b.random(dtype.BF16, 128, 1024), b.random(dtype.F32, 1024)
	wide := b.ok(b.BroadcastInDim(y, []int{128, 1024}, []int{1}))
	f := b.binary(graph.Add, b.ok(b.Convert(x, dtype.F32)), wide)
	testkit.OK(t, b.SetOutputs(b.ok(b.Convert(b.unary(graph.Tanh, f), dtype.BF16)), b.softmax(b.random(dtype.F32, 128, 1024))))
	tasks, err := Fuse(b.Graph)
	testkit.OK(t, err)
	var text strings.Builder
	for _, task := range tasks {
		u, err := compile(task)
		testkit.OK(t, err)
		for _, l := range u.launches {
			fmt.Fprintf(&text, "// %s: %dx%d blocks\n%s\n", l.name, l.grid[0], l.grid[1], l.text)
		}
	}
	const file = "testdata/kernels.txt"
	if os.Getenv("UPDATE") != "" {
		testkit.OK(t, os.WriteFile(file, []byte(text.String()), 0o644))
	}
	if want := testkit.ReadFile(t, file); text.String() != want {
		t.Errorf("kernels are not those of %s; with UPDATE=1 the test writes it:\n%s", file, text.String())
	}
}

// What one kernel cannot read takes several.
func TestMany(t *testing.T) {
	e := openTest(t)
	b := newBuilder(t)
	var list, sums []graph.Value
	total := b.random(dtype.F32, 5, 3)
	for i := range 40 {
		v := b.random(dtype.F32, 5, 3+i%3)
		list = append(list, v)
		sums = append(sums, b.ok(b.Reshape(b.ok(b.Reduce(graph.ReduceSum, v, 0, 1)), 1)))
		total = b.binary(graph.Add, total, b.random(dtype.F32, 5, 3))
	}
	wide := func() graph.Value { // made of 15 arrays
		v := b.random(dtype.F32, 5, 3)
		for range 14 {
			v = b.binary(graph.Add, v, b.random(dtype.F32, 5, 3))
		}
		return v
	}
	some := b.ok(b.Where(b.binary(graph.Less, wide(), wide()), wide(), wide()))
	joined := b.ok(b.Concatenate(1, append(list, b.random(dtype.F32, 5, 0), wide())...))
	b.compare(e, 4, joined, b.ok(b.Concatenate(0, sums...)), total, some, b.unary(graph.Neg, joined))
}

// What the environment may say of products.
func TestProductsVariable(t *testing.T) {
	t.Setenv(ProductsVariable, "quickly")
	_, err := open(devicetest.Open(t), nil, nil)
	testkit.WantError(t, "a typing error", err, step.ErrArgument, ProductsVariable, "quickly")
	t.Setenv(ProductsVariable, "measured")
	e := openTest(t)
	if said := strings.Contains(strings.Join(e.Notes(), "\n"), ProductsVariable); said == (e.tuning != nil) {
		t.Errorf("tuning: %t, notes: %v", e.tuning != nil, e.Notes())
	}
}
