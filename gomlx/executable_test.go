package gomlx

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/plan"
)

// build compiles a function of float32 parameters of one shape.
func build(t *testing.T, b *Backend, dims []int, n int, body func(f compute.Function, in []compute.Value) []compute.Value) compute.Executable {
	t.Helper()
	builder := b.Builder("test")
	f := builder.Main()
	var in []compute.Value
	for i := range n {
		in = append(in, value(t)(f.Parameter(string(rune('a'+i)), shapes.Make(dtypes.Float32, dims...), nil)))
	}
	testkit.OK(t, f.Return(body(f, in), nil))
	x, err := builder.Compile()
	testkit.OK(t, err)
	return x
}

func value(t *testing.T) func(v compute.Value, err error) compute.Value {
	return func(v compute.Value, err error) compute.Value {
		t.Helper()
		testkit.OK(t, err)
		return v
	}
}

func put(t *testing.T, b *Backend, flat []float32) compute.Buffer {
	t.Helper()
	buf, err := b.BufferFromFlatData(0, flat, shapes.Make(dtypes.Float32, len(flat)))
	testkit.OK(t, err)
	return buf
}

func get(t *testing.T, buf compute.Buffer) []float32 {
	t.Helper()
	s, err := buf.Shape()
	testkit.OK(t, err)
	flat := make([]float32, s.Size())
	testkit.OK(t, buf.ToFlatData(flat))
	return flat
}

func TestExecutable(t *testing.T) {
	b := open(t)
	x := build(t, b, []int{2}, 2, func(f compute.Function, in []compute.Value) []compute.Value {
		sum := value(t)(f.Add(in[0], in[1]))
		return []compute.Value{sum, in[0], sum, value(t)(f.Constant([]int64{7}))}
	})
	names, in := x.Inputs()
	two := shapes.Make(dtypes.Float32, 2)
	if want := []string{"a", "b"}; !reflect.DeepEqual(names, want) || len(in) != 2 || !in[0].Equal(two) {
		t.Errorf("inputs %v %v", names, in)
	}
	if out := x.Outputs(); len(out) != 4 || !out[0].Equal(two) || !out[3].Equal(shapes.Make(dtypes.Int64)) {
		t.Errorf("outputs %v", out)
	}
	a, c := put(t, b, []float32{1, 2}), put(t, b, []float32{10, 20})
	out, err := x.Execute([]compute.Buffer{a, c}, nil, 0)
	testkit.OK(t, err)
	for i, want := range [][]float32{{11, 22}, {1, 2}, {11, 22}} {
		if got := get(t, out[i]); !reflect.DeepEqual(got, want) {
			t.Errorf("output %d is %v", i, got)
		}
		testkit.OK(t, out[i].Finalize()) // each has memory of its own
	}
	if got := get(t, a); !reflect.DeepEqual(got, []float32{1, 2}) {
		t.Errorf("an input became %v", got)
	}
	x.Finalize()
	x.Finalize()
	if _, err := x.Execute([]compute.Buffer{a, c}, nil, 0); err == nil {
		t.Error("a finalized executable runs")
	}
}

func TestDonation(t *testing.T) {
	b := open(t)
	x := build(t, b, []int{2}, 2, func(f compute.Function, in []compute.Value) []compute.Value {
		return []compute.Value{value(t)(f.Add(in[0], in[1]))}
	})
	a, c := put(t, b, []float32{1, 2}), put(t, b, []float32{10, 20})
	out, err := x.Execute([]compute.Buffer{a, c}, []bool{true, false}, 0)
	testkit.OK(t, err)
	if got := get(t, out[0]); !reflect.DeepEqual(got, []float32{11, 22}) {
		t.Errorf("%v", got)
	}
	testkit.OK(t, a.Finalize())
	testkit.WantError(t, "a donated buffer", a.ToFlatData(make([]float32, 2)), ErrGone, "donated")
	_, err = x.Execute([]compute.Buffer{a, c}, nil, 0)
	testkit.WantError(t, "a donated buffer", err, ErrGone, "donated")
	_, err = x.Execute([]compute.Buffer{c, c}, []bool{true, false}, 0)
	testkit.WantError(t, "a buffer donated and used", err, ErrGone, "donated")
	if live := len(b.pool.Live()); live != 1 {
		t.Errorf("%d blocks are live, and only the result should be", live)
	}

	// Memory that is not the backend's is read, and given back.
	memory, err := b.device.Alloc(8)
	testkit.OK(t, err)
	testkit.OK(t, b.stream.Memset(memory, 0, 8))
	testkit.OK(t, b.stream.Synchronize())
	released := 0
	wrapped, err := b.Wrap(memory, shapes.Make(dtypes.Float32, 2), func() error { released++; return nil })
	testkit.OK(t, err)
	out, err = x.Execute([]compute.Buffer{wrapped, out[0]}, []bool{true, true}, 0)
	testkit.OK(t, err)
	if released != 1 {
		t.Errorf("released %d times", released)
	}
	zeros := make([]byte, 8)
	testkit.OK(t, b.stream.CopyD2H(zeros, memory))
	testkit.OK(t, b.stream.Synchronize())
	if got := get(t, out[0]); !reflect.DeepEqual(got, []float32{11, 22}) || !reflect.DeepEqual(zeros, make([]byte, 8)) {
		t.Errorf("%v, and the memory is %v", got, zeros)
	}
}

func TestBadExecutions(t *testing.T) {
	b, other := open(t), open(t)
	x := build(t, b, []int{2}, 1, func(f compute.Function, in []compute.Value) []compute.Value { return in })
	ok := put(t, b, []float32{1, 2})
	for what, inputs := range map[string][]compute.Buffer{
		"no input":         {},
		"an input more":    {ok, ok},
		"another shape":    {put(t, b, []float32{1, 2, 3})},
		"another backend":  {put(t, other, []float32{1, 2})},
		"no buffer at all": {nil},
	} {
		_, err := x.Execute(inputs, nil, 0)
		testkit.WantError(t, what, err, ErrArgument)
	}
	_, err := x.Execute([]compute.Buffer{ok}, []bool{true, false}, 0)
	testkit.WantError(t, "donate of another length", err, ErrArgument)
	_, err = x.Execute([]compute.Buffer{ok}, nil, 1)
	testkit.WantError(t, "another device", err, ErrArgument)
	if _, err := x.Execute([]compute.Buffer{ok}, nil, 0); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

func TestBadGraphs(t *testing.T) {
	b := open(t)
	f := b.Builder("test").Main()
	x := value(t)(f.Parameter("x", shapes.Make(dtypes.Float32, 2, 3), nil))
	n := value(t)(f.Parameter("n", shapes.Make(dtypes.Int32, 2, 3), nil))
	foreign := value(t)(b.Builder("other").Main().Parameter("x", shapes.Make(dtypes.Float32, 2, 3), nil))
	for what, build := range map[string]func() (compute.Value, error){
		"types that differ":         func() (compute.Value, error) { return f.Add(x, n) },
		"ranks that differ":         func() (compute.Value, error) { return f.Reshape(x, 5) },
		"a type that an op has not": func() (compute.Value, error) { return f.Exp(n) },
		"bits of floats":            func() (compute.Value, error) { return f.BitwiseAnd(x, x) },
		"logic of numbers":          func() (compute.Value, error) { return f.LogicalAnd(n, n) },
		"logic reduces numbers":     func() (compute.Value, error) { return f.ReduceLogicalOr(n) },
		"a value of another graph":  func() (compute.Value, error) { return f.Neg(foreign) },
		"no value":                  func() (compute.Value, error) { return f.Neg(nil) },
		"complex numbers":           func() (compute.Value, error) { return f.ConvertDType(x, dtypes.Complex64) },
		"a constant of another size": func() (compute.Value, error) {
			return f.Constant([]float32{1, 2}, 3)
		},
		"a parameter of unknown length": func() (compute.Value, error) {
			return f.Parameter("d", shapes.MakeDynamic(dtypes.Float32, []int{shapes.DynamicDim}, []string{"batch"}), nil)
		},
		"a parameter twice": func() (compute.Value, error) { return f.Parameter("x", shapes.Make(dtypes.Float32), nil) },
	} {
		_, err := build()
		testkit.WantError(t, what, err, ErrArgument)
	}
	for what, err := range map[string]error{
		"complex numbers": second(f.Complex(x, x)),
		"a loop":          second(f.While(f, f, x)),
		"a fused op":      second(f.FusedSoftmax(x, 1)),
	} {
		if !compute.IsNotImplemented(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	testkit.WantError(t, "nothing returned", f.Return(nil, nil), ErrArgument)
	_, err := b.Builder("test").Compile()
	testkit.WantError(t, "no return", err, ErrArgument)
	testkit.OK(t, f.Return([]compute.Value{x}, nil))
	_, err = f.Neg(x)
	testkit.WantError(t, "a function that has returned", err, ErrArgument, "returned")
}

func second[T any](_ T, err error) error { return err }

func TestFunctions(t *testing.T) {
	b := open(t)
	builder := b.Builder("test")
	scalar := shapes.Make(dtypes.Float32)
	square, err := builder.NewFunction("square")
	testkit.OK(t, err)
	v := value(t)(square.Parameter("v", scalar, nil))
	testkit.OK(t, square.Return([]compute.Value{value(t)(square.Mul(v, v)), v}, nil))

	f := builder.Main()
	x := value(t)(f.Parameter("x", scalar, nil))
	called, err := f.Call(square, x)
	testkit.OK(t, err)
	branch := func(result compute.Value) compute.Function {
		c, err := f.Closure()
		testkit.OK(t, err)
		testkit.OK(t, c.Return([]compute.Value{value(t)(c.Neg(result))}, nil))
		return c
	}
	zero := value(t)(f.Constant([]float32{0}))
	chosen, err := f.If(value(t)(f.GreaterThan(x, zero)), branch(called[0]), branch(called[1]))
	testkit.OK(t, err)

	open, err := f.Closure()
	testkit.OK(t, err)
	_, err = open.Parameter("p", scalar, nil)
	if !compute.IsNotImplemented(err) {
		t.Errorf("a closure's parameter: %v", err)
	}
	foreign, err := b.Builder("other").NewFunction("square")
	testkit.OK(t, err)
	for what, err := range map[string]error{
		"a name that is taken":        second(builder.NewFunction("square")),
		"the name of the main one":    second(builder.NewFunction(compute.MainName)),
		"no name":                     second(builder.NewFunction("")),
		"too few arguments":           second(f.Call(square)),
		"arguments of another shape":  second(f.Call(square, value(t)(f.Constant([]float32{1, 2}, 2)))),
		"a function that is not done": second(f.If(value(t)(f.Constant([]bool{true})), open, open)),
		"another computation's":       second(f.Call(foreign, x)),
		"a closure":                   second(f.Call(branch(x), x)),
		"no bool":                     second(f.If(x, branch(x), branch(x))),
		"branches of different types": second(f.If(value(t)(f.Constant([]bool{true})), branch(x), branch(value(t)(f.Constant([]int32{1}))))),
	} {
		testkit.WantError(t, what, err, ErrArgument)
	}

	testkit.OK(t, f.Return(chosen, nil))
	run, err := builder.Compile()
	testkit.OK(t, err)
	for x, want := range map[float32]float32{3: -9, -3: 3} {
		in, err := b.BufferFromFlatData(0, []float32{x}, scalar)
		testkit.OK(t, err)
		out, err := run.Execute([]compute.Buffer{in}, nil, 0)
		testkit.OK(t, err)
		if got := get(t, out[0]); got[0] != want {
			t.Errorf("%g: %g, want %g", x, got[0], want)
		}
	}
}

// Everything that a backend says it has, it has.
func TestCapabilities(t *testing.T) {
	c := open(t).Capabilities()
	c.Operations[compute.OpTypeSort] = true
	if open(t).Capabilities().Operations[compute.OpTypeSort] {
		t.Error("capabilities are shared")
	}
	f := reflect.TypeFor[*function]()
	for op := range unaryOps {
		if _, ok := f.MethodByName(op.String()); !ok {
			t.Errorf("there is no method %v", op)
		}
	}
	for op := range binaryOps {
		if _, ok := f.MethodByName(op.String()); !ok {
			t.Errorf("there is no method %v", op)
		}
	}
}

func TestBudget(t *testing.T) {
	b, err := New("host,budget=1KiB")
	testkit.OK(t, err)
	defer b.Finalize()
	builder := b.Builder("large")
	f := builder.Main()
	x := value(t)(f.Parameter("x", shapes.Make(dtypes.Float32, 1000), nil))
	testkit.OK(t, f.Return([]compute.Value{x}, nil))
	_, err = builder.Compile()
	var impossible *plan.ImpossibleError
	if !errors.As(err, &impossible) {
		t.Errorf("4,000 bytes in 1 KiB: %v", err)
	}
}

// A device that is full says which step's plan it has no room for, and for what.
func TestOutOfMemory(t *testing.T) {
	b, err := New("host:16MiB")
	testkit.OK(t, err)
	defer b.Finalize()
	const n = 1 << 20
	repeat := func(name string, rows int, sum bool) (compute.Executable, error) {
		builder := b.Builder(name)
		f := builder.Main()
		x := value(t)(f.Parameter("x", shapes.Make(dtypes.Float32, n), nil))
		y := value(t)(f.BroadcastInDim(x, shapes.Make(dtypes.Float32, rows, n), []int{1}))
		if sum { // of another order, so that it has to be in memory
			y = value(t)(f.ReduceSum(value(t)(f.Reverse(y, 0)), 1))
		}
		testkit.OK(t, f.Return([]compute.Value{y}, nil))
		return builder.Compile()
	}
	_, err = repeat("sums", 8, true)
	testkit.WantError(t, "compiling", err, device.ErrOutOfMemory, `step: graph "sums", whose plan has`, "for values between operations")
	x, err := repeat("rows", 8, false)
	testkit.OK(t, err)
	in := put(t, b, make([]float32, n))
	_, err = x.Execute([]compute.Buffer{in}, nil, 0)
	testkit.WantError(t, "running", err, device.ErrOutOfMemory, `step: graph "rows", whose plan has 36 MiB on the device`, "result 0", "f32[8,1048576]")
	// What was there is still there.
	small := build(t, b, []int{n}, 1, func(f compute.Function, in []compute.Value) []compute.Value {
		return []compute.Value{value(t)(f.Neg(in[0]))}
	})
	out, err := small.Execute([]compute.Buffer{in}, nil, 0)
	testkit.OK(t, err)
	testkit.OK(t, out[0].Finalize())
}

// A step without a budget for which the device has no room is planned for what that has,
// with the same results.
func TestSqueeze(t *testing.T) {
	const n, layers = 1 << 18, 12 // values of 1 MiB
	results := map[string][]float32{}
	for _, config := range []string{"host", "host:12MiB"} {
		b, err := New(config)
		testkit.OK(t, err)
		x := build(t, b, []int{n}, 1, func(f compute.Function, in []compute.Value) []compute.Value {
			list := []compute.Value{in[0]}
			for range layers { // a reversal is a task of its own
				list = append(list, value(t)(f.Reverse(value(t)(f.Tanh(list[len(list)-1])), 0)))
			}
			sum := list[layers]
			for i := range layers {
				sum = value(t)(f.Reverse(value(t)(f.Add(sum, list[layers-1-i])), 0))
			}
			return []compute.Value{sum}
		})
		in := make([]float32, n)
		for i := range in {
			in[i] = float32(i) / n
		}
		out, err := x.Execute([]compute.Buffer{put(t, b, in)}, nil, 0)
		testkit.OK(t, err)
		results[config] = get(t, out[0])
		b.Finalize()
	}
	if !slices.Equal(results["host"], results["host:12MiB"]) {
		t.Error("the results differ")
	}
}

func TestOpen(t *testing.T) {
	best, err := device.Open("auto")
	testkit.OK(t, err)
	defer best.Close()
	unnamed, err := New("")
	testkit.OK(t, err)
	defer unnamed.Finalize()
	if got, want := unnamed.Device().Info().ID, best.Info().ID; got != want {
		t.Errorf("without a name, the device is %s, not %s", got, want)
	}
	for _, config := range []string{"tpu:0", "cuda:99"} {
		if _, err := New(config); err == nil {
			t.Errorf("%q opens", config)
		}
	}
	_, err = Open(Options{Budget: -1})
	testkit.WantError(t, "a negative budget", err, ErrArgument)
	for _, bad := range []dtype.DType{dtype.F64, dtype.I32, dtype.Bool, 200} {
		_, err = Open(Options{Device: "host", Average: bad})
		testkit.WantError(t, bad.String(), err, ErrArgument, "cannot average gradients in")
	}

	dev, err := device.Open("host")
	testkit.OK(t, err)
	defer dev.Close()
	b, err := Open(Options{On: dev})
	testkit.OK(t, err)
	b.Finalize()
	b.Finalize()
	if dev.Closed() {
		t.Error("a backend has closed a device that is not its own")
	}
	if !b.IsFinalized() {
		t.Error("it is not finalized")
	}
	registered, err := compute.NewWithConfig("pinion:host,budget=1GiB")
	testkit.OK(t, err)
	defer registered.Finalize()
	if registered.Name() != "pinion" || registered.NumDevices() != 1 || registered.Description() == "" {
		t.Errorf("%q, %d devices, %q", registered.Name(), registered.NumDevices(), registered.Description())
	}
	if _, err := compute.NewWithConfig("pinion:host,fast"); !errors.Is(err, ErrArgument) {
		t.Errorf("%v", err)
	}
}

func TestConcurrentSteps(t *testing.T) {
	b := open(t)
	x := build(t, b, []int{100}, 1, func(f compute.Function, in []compute.Value) []compute.Value {
		return []compute.Value{value(t)(f.Mul(in[0], in[0]))}
	})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			flat := make([]float32, 100)
			for i := range flat {
				flat[i] = float32(g)
			}
			for range 20 {
				in, err := b.BufferFromFlatData(0, flat, shapes.Make(dtypes.Float32, 100))
				if err != nil {
					t.Error(err)
					return
				}
				out, err := x.Execute([]compute.Buffer{in}, []bool{g%2 == 0}, 0)
				if err != nil {
					t.Error(err)
					return
				}
				got := make([]float32, 100)
				if err := out[0].ToFlatData(got); err != nil || got[0] != float32(g*g) || got[99] != float32(g*g) {
					t.Errorf("%d: %v %v", g, got[0], err)
				}
				if err := errors.Join(in.Finalize(), out[0].Finalize()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// noter is an executor that has something to say.
type noter struct{ step.Executor }

func (noter) Notes() []string { return []string{"no cuDNN library"} }

func TestNotes(t *testing.T) {
	b := open(t)
	if testDevice() == "host" && b.Notes() != nil {
		t.Error(b.Notes())
	}
	b.executor = noter{b.executor}
	if got := b.Notes(); !reflect.DeepEqual(got, []string{"no cuDNN library"}) {
		t.Errorf("%q", got)
	}
}
