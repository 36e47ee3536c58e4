package cudaexec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/plan"
)

// execute compiles the graph as users do, runs it, and returns its outputs.
func (b *builder) execute(e step.Executor, o step.Options) ([][]byte, *step.Executable) {
	t := b.t
	t.Helper()
	x, err := step.Compile(b.Graph, e, o)
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, x.Close()) })
	var in []*step.Tensor
	for i, p := range b.Parameters() {
		in = append(in, testkit.Must(x.Memory().Put(b.in[i], p.Shape()))(t))
	}
	out, err := x.Run(context.Background(), in, nil)
	testkit.OK(t, err)
	var results [][]byte
	for _, v := range out {
		data := make([]byte, v.Shape().Bytes())
		testkit.OK(t, v.Read(data))
		results = append(results, data)
		testkit.OK(t, v.Free())
	}
	for _, v := range in {
		testkit.OK(t, v.Free())
	}
	return results, x
}

// A block of a GPT through step.Compile: the host's results, and the same bits in less
// memory.
func TestCompile(t *testing.T) {
	e := openTest(t)
	b := newBuilder(t)
	outputs := b.block(dtype.F32, 2, 8, 32, 2, false)
	outputs = append(outputs, b.ok(b.Reshape(outputs[0], 16*32)), b.Parameters()[0], outputs[1])
	testkit.OK(t, b.SetOutputs(outputs...))
	want, _ := b.execute(reference(t), step.Options{})
	got, x := b.execute(e, step.Options{})
	for i, v := range outputs {
		for j := range v.Shape().Size() {
			g, _ := element(v.Shape().Type, got[i], j)
			w, _ := element(v.Shape().Type, want[i], j)
			if !near(v.Shape().Type, g, w, 500) {
				t.Fatalf("output %d, element %d of %v: %v, want %v", i, j, v.Shape(), g, w)
			}
		}
	}
	if n := len(x.Tasks()); n > 60 {
		t.Errorf("%d tasks of %d operations", n, len(b.Nodes()))
	}
	_, err := step.Compile(b.Graph, e, step.Options{Budget: 1})
	var impossible *plan.ImpossibleError
	if !errors.As(err, &impossible) {
		t.Fatalf("a budget of one byte: %v", err)
	}
	less, tight := b.execute(e, step.Options{Budget: (x.PeakBytes() + impossible.Least) / 2, Link: 1e9})
	if tight.PeakBytes() >= x.PeakBytes() {
		t.Errorf("%d bytes, %d without a budget", tight.PeakBytes(), x.PeakBytes())
	}
	for i := range less {
		if string(less[i]) != string(got[i]) {
			t.Errorf("output %d differs within a budget", i)
		}
	}
}

// What the executor lacks is an error that names the operation.
func TestUnsupported(t *testing.T) {
	b := newBuilder(t)
	x := b.random(dtype.F32, 8, 8)
	c, err := b.DotGeneral(x, x, graph.DotAxes{Contracted: [2][]int{{1}, {0}}})
	testkit.OK(t, err)
	s := b.ok(b.Reduce(graph.ReduceSum, x, 0))
	testkit.OK(t, b.SetOutputs(c, s))
	_, err = compile(&step.Task{Nodes: b.Nodes()[1:], Inputs: []graph.Value{x}, Outputs: []graph.Value{c, s}})
	testkit.WantError(t, "a product and a sum in one task", err, step.ErrNotSupported, fmt.Sprint(graph.DotGeneral))
}

// A few elements of an array with more than 2^31 are found by indexes of 64 bits.
func TestFar(t *testing.T) {
	for n, want := range map[int]string{3 << 30: "i64", 3 << 20: "i32"} {
		b := newBuilder(t)
		x := b.ok(b.Parameter("x", graph.MakeShape(dtype.U8, n)))
		end := b.ok(b.Slice(x, []int{n - 10}, []int{n}, []int{1}))
		u, err := compile(&step.Task{Nodes: []*graph.Node{end.Node()}, Inputs: []graph.Value{x}, Outputs: []graph.Value{end}})
		testkit.OK(t, err)
		if text := u.launches[0].text; !strings.Contains(text, "const "+want+" v") {
			t.Errorf("%v of %v: no index of type %s in\n%s", end.Node(), x.Shape(), want, text)
		}
	}
}

// What is computed of values behind a barrier is computed when it is wanted, and not
// where they are made.
func TestBarrier(t *testing.T) {
	for _, barred := range []bool{false, true} {
		b := newBuilder(t)
		x := b.random(dtype.F32, 128, 64)
		y := b.unary(graph.Exp, x)
		sums := b.ok(b.Reduce(graph.ReduceSum, y, 1))
		saved := []graph.Value{y, sums}
		if barred {
			saved = testkit.Must(b.OptimizationBarrier(saved...))(t)
		}
		z := b.binary(graph.Div, saved[0], b.ok(b.BroadcastInDim(saved[1], []int{128, 64}, []int{0})))
		testkit.OK(t, b.SetOutputs(y, sums, z))
		tasks, err := Fuse(b.Graph)
		testkit.OK(t, err)
		if want := map[bool]int{false: 1, true: 2}[barred]; len(tasks) != want {
			t.Errorf("with a barrier: %t, there are %d tasks, want %d: %v", barred, len(tasks), want, tasks)
		}
		b.compare(openTest(t), 2, y, sums, z)
	}
}

// What ranks reduce together is a task by itself, whose operands lie in memory, also those
// that are cheap to compute where they are wanted.
func TestReducedByRanks(t *testing.T) {
	b := newBuilder(t)
	x, y := b.random(dtype.F32, 128, 64), b.random(dtype.F32, 64)
	scaled := b.unary(graph.Neg, y)
	turned := b.ok(b.Reshape(b.unary(graph.Exp, x), 64, 128))
	sums := testkit.Must(b.AllReduce(graph.AllReduceOptions{Mean: true}, turned, scaled))(t)
	z := b.binary(graph.Mul, b.unary(graph.Tanh, sums[0]), b.ok(b.BroadcastInDim(sums[1], []int{64, 128}, []int{0})))
	testkit.OK(t, b.SetOutputs(z, b.unary(graph.Abs, y)))
	tasks, err := Fuse(b.Graph)
	testkit.OK(t, err)
	written := map[graph.Value]bool{}
	for _, task := range tasks {
		reduces := 0
		for _, n := range task.Nodes {
			if n.Op == graph.AllReduce {
				reduces++
				for _, v := range []graph.Value{turned.Node().Inputs[0], scaled} {
					if !written[v] {
						t.Errorf("%v is reduced, and was not written", v)
					}
				}
			}
		}
		if reduces == 1 && slices.ContainsFunc(task.Nodes, func(n *graph.Node) bool { return n.Op == graph.Tanh || n.Op == graph.Neg || n.Op == graph.Exp }) {
			t.Errorf("%v is one task", task)
		}
		for _, v := range task.Outputs {
			written[v] = true
		}
	}
	if !written[sums[0]] || !written[sums[1]] || !written[z] {
		t.Errorf("not everything is written by %v", tasks)
	}
}
