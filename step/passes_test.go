package step_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/plan"
)

// compiled is the graph and the tasks that a graph becomes.
func compiled(t *testing.T, m maker, outputs ...graph.Value) (graph string, tasks []string) {
	t.Helper()
	testkit.OK(t, m.SetOutputs(outputs...))
	x := testkit.Must(step.Compile(m.Graph, newExecutor(t), step.Options{}))(t)
	defer x.Close()
	for _, task := range x.Tasks() {
		tasks = append(tasks, task.String())
	}
	return x.Graph().String(), tasks
}

func wantTasks(t *testing.T, graph string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("tasks %q, want %q\n%s", got, want, graph)
	}
}

func TestCommonAndDead(t *testing.T) {
	m := newMaker(t)
	x := m.param(f32(4, 4))
	m.must(m.Unary(graph.Log, x)) // nobody reads it
	dot := func(v graph.Value) graph.Value {
		return m.must(m.DotGeneral(v, v, graph.DotAxes{Contracted: [2][]int{{1}, {1}}}))
	}
	a, b := dot(x), dot(m.must(m.Identity(x)))
	sum := m.must(m.Binary(graph.Add, a, b))
	graph, tasks := compiled(t, m, sum)
	wantTasks(t, graph, tasks, "DotGeneral", "Add")
}

func TestAbsorbed(t *testing.T) {
	m := newMaker(t)
	x, y := m.param(f32(4, 5, 6)), m.param(f32(5, 6))
	turned := m.must(m.Transpose(x, 0, 2, 1))
	dot := m.must(m.DotGeneral(turned, y, graph.DotAxes{Contracted: [2][]int{{2}, {0}}})) // [4 6] x [6]
	swapped := m.must(m.DotGeneral(m.must(m.Transpose(x, 1, 0, 2)), y, graph.DotAxes{Contracted: [2][]int{{2}, {1}}}))
	graph, tasks := compiled(t, m, dot, swapped)
	wantTasks(t, graph, tasks, "DotGeneral", "Transpose", "DotGeneral")
	if !strings.Contains(graph, "DotGeneral %0 %1 {Contracted:[[1] [0]]") {
		t.Errorf("the transposition is not part of the product:\n%s", graph)
	}
}

// What lies behind a barrier is computed again.
func TestBarrier(t *testing.T) {
	m := newMaker(t)
	x := m.param(f32(4, 4))
	behind, err := m.OptimizationBarrier(x)
	testkit.OK(t, err)
	a := m.must(m.Reduce(graph.ReduceSum, x, 1))
	b := m.must(m.Reduce(graph.ReduceSum, behind[0], 1))
	later := m.must(m.SchedulingBarrier(b, a))
	graph, tasks := compiled(t, m, a, later)
	wantTasks(t, graph, tasks, "ReduceSum", "ReduceSum", "Identity")
}

func TestFusion(t *testing.T) {
	m := newMaker(t)
	x, bias := m.param(f32(8, 16)), m.param(f32(16))
	wide := m.must(m.BroadcastInDim(bias, []int{8, 16}, []int{1}))
	y := m.must(m.Unary(graph.Tanh, m.must(m.Binary(graph.Add, x, wide))))
	sum := m.must(m.Reduce(graph.ReduceSum, y, 1))
	z := m.must(m.Binary(graph.Mul, m.must(m.Unary(graph.Neg, y)), wide)) // y has two readers: it is kept
	graph, tasks := compiled(t, m, z, sum)
	wantTasks(t, graph, tasks, "BroadcastInDim+Add+Tanh", "ReduceSum", "BroadcastInDim+Neg+Mul")
}

func TestFolding(t *testing.T) {
	m := newMaker(t)
	x := m.param(f32(3))
	two := m.must(m.Constant(floats(2), f32()))
	root := m.must(m.Unary(graph.Sqrt, m.must(m.Binary(graph.Mul, two, two))))
	steps := m.must(m.Reduce(graph.ReduceSum, m.must(m.Iota(f32(10), 0))))
	y := m.must(m.Binary(graph.Mul, x, m.must(m.Binary(graph.Add, root, steps))))
	view := m.must(m.Reshape(two, 1)) // has no memory, but is wanted
	z := m.must(m.Concatenate(0, y, view, m.must(m.Reshape(m.must(m.Unary(graph.Neg, two)), 1))))
	graph, tasks := compiled(t, m, z)
	wantTasks(t, graph, tasks, "Mul", "Concatenate")
	if !strings.Contains(graph, "Constant {00003c42} : f32[]") { // 2 + 45
		t.Errorf("no constant 47:\n%s", graph)
	}
}

// Outputs that are parameters, constants, views, or one value twice have memory of
// their own.
// A view of what is computed has to become a constant, too.
func TestFoldingOfViews(t *testing.T) {
	m := newMaker(t)
	at := m.param(graph.MakeShape(dtype.I32, 2, 1))
	table := m.must(m.Reshape(m.must(m.Iota(f32(6), 0)), 3, 2))
	rows := m.must(m.Gather(table, at, graph.GatherAxes{IndexVector: 1, StartIndex: []int{0}, Sizes: []int{1, 2}, Collapsed: []int{0}, Offset: []int{1}}))
	graph, tasks := compiled(t, m, rows)
	wantTasks(t, graph, tasks, "Gather")
}

func TestOutputs(t *testing.T) {
	m := newMaker(t)
	x := m.param(f32(2, 3))
	five := m.must(m.Constant(floats(5), f32()))
	view := m.must(m.Reshape(x, 6))
	neg := m.must(m.Unary(graph.Neg, x))
	empty := m.param(f32(0, 3))
	testkit.OK(t, m.SetOutputs(x, five, view, neg, neg, m.must(m.Reshape(neg, 3, 2)), x, empty, m.must(m.Reduce(graph.ReduceSum, empty))))
	exec := openExecutor(t)
	run := testkit.Must(step.Compile(m.Graph, exec, step.Options{}))(t)
	defer run.Close()
	in := []*step.Tensor{
		testkit.Must(run.Memory().Put(floats(1, 2, 3, 4, 5, 6), x.Shape()))(t),
		testkit.Must(run.Memory().Put(nil, empty.Shape()))(t),
	}
	out := testkit.Must(run.Run(context.Background(), in, nil))(t)
	testkit.OK(t, in[0].Free())
	minus := floats(-1, -2, -3, -4, -5, -6)
	for i, want := range [][]byte{floats(1, 2, 3, 4, 5, 6), floats(5), floats(1, 2, 3, 4, 5, 6), minus, minus, minus, floats(1, 2, 3, 4, 5, 6), nil, floats(0)} {
		got := make([]byte, out[i].Shape().Bytes())
		testkit.OK(t, out[i].Read(got))
		if string(got) != string(want) {
			t.Errorf("output %d: %x, want %x", i, got, want)
		}
		testkit.OK(t, out[i].Free())
	}
}

func TestRunErrors(t *testing.T) {
	m := newMaker(t)
	x, y := m.param(f32(3)), m.param(f32(3))
	exec := newExecutor(t)
	_, err := step.Compile(m.Graph, exec, step.Options{})
	testkit.WantError(t, "no outputs", err, step.ErrArgument, "no outputs")
	testkit.OK(t, m.SetOutputs(m.must(m.Binary(graph.Add, x, y))))
	_, err = step.Compile(m.Graph, exec, step.Options{Donate: []bool{true}})
	testkit.WantError(t, "donate", err, step.ErrArgument, "1 of 2")
	run := testkit.Must(step.Compile(m.Graph, exec, step.Options{Donate: []bool{true, false}}))(t)
	put := func() *step.Tensor { return testkit.Must(run.Memory().Put(floats(1, 2, 3), f32(3)))(t) }
	a, b := put(), put()
	ctx := context.Background()
	do := func(in []*step.Tensor, donate []bool) error {
		out, err := run.Run(ctx, in, donate)
		for _, v := range out {
			testkit.OK(t, v.Free())
		}
		return err
	}
	wrong := testkit.Must(run.Memory().Put(floats(1), f32(1)))(t)
	testkit.WantError(t, "few", do([]*step.Tensor{a}, nil), step.ErrArgument, "1 input for 2 parameters")
	testkit.WantError(t, "none", do([]*step.Tensor{a, nil}, nil), step.ErrArgument, `"p1" has no tensor`)
	testkit.WantError(t, "shape", do([]*step.Tensor{a, wrong}, nil), step.ErrArgument, "f32[3]", "f32[1]")
	testkit.WantError(t, "twice", do([]*step.Tensor{a, a}, []bool{true, false}), step.ErrArgument, "another")
	other := newExecutor(t)
	memory := testkit.Must(step.OpenMemory(other.Device(), nil))(t)
	elsewhere := testkit.Must(memory.Put(floats(1, 2, 3), f32(3)))(t)
	testkit.WantError(t, "elsewhere", do([]*step.Tensor{a, elsewhere}, nil), step.ErrArgument, "is on")
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = run.Run(canceled, []*step.Tensor{a, b}, nil)
	testkit.WantError(t, "canceled", err, context.Canceled)
	testkit.OK(t, do([]*step.Tensor{a, b}, []bool{true, false}))
	testkit.WantError(t, "donated", do([]*step.Tensor{a, b}, nil), step.ErrArgument, `"p0" was freed or donated`)
	testkit.WantError(t, "read", a.Read(make([]byte, 12)), step.ErrArgument, "donated")
	testkit.OK(t, run.Close())
	testkit.OK(t, run.Close())
	testkit.WantError(t, "closed", do([]*step.Tensor{b, b}, nil), step.ErrClosed)
	testkit.WantError(t, "bytes", b.Write(make([]byte, 5)), step.ErrArgument, "5 bytes instead of 12")
}

// An executor that lacks an operation is found out when the graph is compiled.
func TestLacking(t *testing.T) {
	m := newMaker(t)
	x := m.param(graph.MakeShape(dtype.Bool, 3))
	testkit.OK(t, m.SetOutputs(m.must(m.Reverse(x, 0))))
	_, err := step.Compile(m.Graph, lacking{newExecutor(t)}, step.Options{})
	testkit.WantError(t, "lacking", err, step.ErrNotSupported, "Reverse", "bool[3]")
}

type lacking struct{ step.Executor }

func (lacking) Compile(t *step.Task) (step.Kernel, error) {
	return nil, fmt.Errorf("%v: %w", t.Nodes[0], step.ErrNotSupported)
}

func TestReport(t *testing.T) {
	m, donate := layers(t, rand.New(rand.NewPCG(1, 1)), 4)
	exec := newExecutor(t)
	whole := testkit.Must(step.Compile(m.Graph, exec, step.Options{Donate: donate}))(t)
	defer whole.Close()
	_, err := step.Compile(m.Graph, exec, step.Options{Donate: donate, Budget: 1})
	var impossible *plan.ImpossibleError
	if !errors.As(err, &impossible) {
		t.Fatal(err)
	}
	x := testkit.Must(step.Compile(m.Graph, exec, step.Options{Donate: donate, Budget: impossible.Found}))(t)
	defer x.Close()
	for _, says := range []string{`step "TestReport": `, " operations in ", " of parameters, in which lie ", "of device memory", "again: ", " x "} {
		if !strings.Contains(x.String(), says) {
			t.Errorf("no %q in\n%v", says, x)
		}
	}
	if strings.Contains(whole.String(), "again: ") {
		t.Errorf("without a budget:\n%v", whole)
	}
	t.Logf("\n%v\n%v", whole, x)
}

// The same graph, budget and link give the same tasks, plan and picture, however often it
// is built and compiled.
func TestCompilesAgain(t *testing.T) {
	testkit.OnlyComputes(t)
	exec := newExecutor(t)
	for name, build := range map[string]func() (*models.Model, error){
		"GPT":    models.GPT{Layers: 3, Width: 32, Heads: 2, Batch: 4, Length: 32, Vocabulary: 50, Type: dtype.BF16, Optimizer: models.Adam}.Model,
		"ResNet": models.ResNet{Blocks: []int{1, 2}, Width: 8, Batch: 4, Size: 32, Classes: 10, Optimizer: models.SGD}.Model,
	} {
		var first [3]string
		budget := int64(0)
		for i := range 3 {
			m := testkit.Must(build())(t)
			o := step.Options{Donate: m.Donate, Link: 1e9, Budget: 1}
			if budget == 0 {
				_, err := step.Plan(m.Graph, exec, o)
				impossible := new(plan.ImpossibleError)
				if !errors.As(err, &impossible) {
					t.Fatalf("%s: a byte: %v", name, err)
				}
				budget = impossible.Found
			}
			o.Budget = budget
			x := testkit.Must(step.Compile(m.Graph, exec, o))(t)
			again := [3]string{x.Graph().String(), x.String() + fmt.Sprintf("%+v", x.Plan()), testkit.Must(x.SVG())(t)}
			testkit.OK(t, x.Close())
			if i == 0 {
				first = again
				if p := x.Plan(); len(p.Runs) == len(x.Tasks()) && p.HostBytes == 0 {
					t.Errorf("%s: nothing runs again, nor travels, within %d bytes", name, budget)
				}
			}
			for k, what := range []string{"graph", "plan", "picture"} {
				if again[k] != first[k] {
					t.Fatalf("%s: the %s differs the next time\n%s\n%s", name, what, again[k], first[k])
				}
			}
		}
	}
}
