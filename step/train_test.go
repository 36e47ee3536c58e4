package step_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/plan"
)

// net is a graph with the inputs that it is tried with.
type net struct {
	maker
	donate []bool
	inputs [][]byte
}

func (n *net) dot(x, y graph.Value, a, b int) graph.Value {
	return n.must(n.DotGeneral(x, y, graph.DotAxes{Contracted: [2][]int{{a}, {b}}}))
}
func (n *net) bin(op graph.Op, x, y graph.Value) graph.Value { return n.must(n.Binary(op, x, y)) }
func (n *net) un(op graph.Op, x graph.Value) graph.Value     { return n.must(n.Unary(op, x)) }
func (n *net) red(op graph.Op, x graph.Value, axes ...int) graph.Value {
	return n.must(n.Reduce(op, x, axes...))
}
func (n *net) num(v float64) graph.Value { return n.must(n.Fill(v, f32())) }
func (n *net) bc(x graph.Value, dims []int, axes ...int) graph.Value {
	return n.must(n.BroadcastInDim(x, dims, axes))
}

func (n *net) softmax(x graph.Value) graph.Value {
	d := x.Shape().Dims
	r := len(d)
	axes := make([]int, r-1)
	for i := range axes {
		axes[i] = i
	}
	e := n.un(graph.Exp, n.bin(graph.Sub, x, n.bc(n.red(graph.ReduceMax, x, r-1), d, axes...)))
	return n.bin(graph.Div, e, n.bc(n.red(graph.ReduceSum, e, r-1), d, axes...))
}

// model is a training step of a small language model: embeddings, layers of attention and
// a perceptron, cross-entropy, and Adam, with its updates behind everything else. Results
// are the loss and what takes the place of the donated parameters: the number of steps,
// the weights, and the two means of each.
func model(t *testing.T, layers int) *net { return modelOf(t, layers, false) }

// modelOf is a model whose gradients are those of one device, or the means of ranks.
func modelOf(t *testing.T, layers int, ranks bool) *net {
	n := &net{maker: newMaker(t)}
	rng := rand.New(rand.NewPCG(1, 2))
	const V, T, D, H = 11, 8, 16, 32
	par := func(s graph.Shape, scale float64, donate bool) graph.Value {
		v := n.param(s)
		x := make([]float32, s.Size())
		for i := range x {
			x[i] = float32(rng.NormFloat64() * scale)
		}
		n.inputs = append(n.inputs, floats(x...))
		n.donate = append(n.donate, donate)
		return v
	}
	idx := func(m int) graph.Value {
		v := n.param(graph.MakeShape(dtype.I32, m))
		var b []byte
		for range m {
			b = binary.LittleEndian.AppendUint32(b, uint32(rng.IntN(V)))
		}
		n.inputs = append(n.inputs, b)
		n.donate = append(n.donate, false)
		return v
	}
	tokens, target := idx(T), idx(T)
	var ws []graph.Value
	w := func(dims ...int) graph.Value {
		v := par(f32(dims...), 0.3, true)
		ws = append(ws, v)
		return v
	}
	grads := map[graph.Value]graph.Value{}
	emb := w(V, D)
	x := n.must(n.Gather(emb, tokens, graph.GatherAxes{IndexVector: 1, StartIndex: []int{0}, Sizes: []int{1, D}, Collapsed: []int{0}, Offset: []int{1}}))
	type lay struct{ x, q, k, v, p, a, h, z, wq, wk, wv, w1, b1, w2 graph.Value }
	var ls []lay
	for range layers {
		l := lay{x: x}
		l.wq, l.wk, l.wv, l.w1, l.b1, l.w2 = w(D, D), w(D, D), w(D, D), w(D, H), w(H), w(H, D)
		l.q, l.k, l.v = n.dot(x, l.wq, 1, 0), n.dot(x, l.wk, 1, 0), n.dot(x, l.wv, 1, 0)
		kt := n.must(n.Transpose(l.k, 1, 0))
		l.p = n.softmax(n.bin(graph.Mul, n.dot(l.q, kt, 1, 0), n.num(0.25)))
		l.a = n.bin(graph.Add, x, n.dot(l.p, l.v, 1, 0))
		l.z = n.bin(graph.Add, n.dot(l.a, l.w1, 1, 0), n.bc(l.b1, []int{T, H}, 1))
		l.h = n.un(graph.Tanh, l.z)
		x = n.bin(graph.Add, l.a, n.dot(l.h, l.w2, 1, 0))
		ls = append(ls, l)
	}
	wo := w(D, V)
	logits := n.dot(x, wo, 1, 0)
	p := n.softmax(logits)
	io := n.must(n.Iota(graph.MakeShape(dtype.I32, T, V), 1))
	hot := n.must(n.Convert(n.bin(graph.Equal, io, n.bc(target, []int{T, V}, 0)), dtype.F32))
	loss := n.bin(graph.Div, n.un(graph.Neg, n.red(graph.ReduceSum, n.bin(graph.Mul, hot, n.un(graph.Log, p)))), n.num(T))
	dl := n.bin(graph.Div, n.bin(graph.Sub, p, hot), n.num(T))
	grads[wo] = n.dot(x, dl, 0, 0)
	g := n.dot(dl, wo, 1, 1)
	for i := layers - 1; i >= 0; i-- {
		l := ls[i]
		grads[l.w2] = n.dot(l.h, g, 0, 0)
		dh := n.dot(g, l.w2, 1, 1)
		dz := n.bin(graph.Mul, dh, n.bin(graph.Sub, n.num(1), n.bin(graph.Mul, l.h, l.h)))
		grads[l.b1] = n.red(graph.ReduceSum, dz, 0)
		grads[l.w1] = n.dot(l.a, dz, 0, 0)
		da := n.bin(graph.Add, g, n.dot(dz, l.w1, 1, 1))
		dv := n.dot(l.p, da, 0, 0)
		dp := n.dot(da, l.v, 1, 1)
		s := n.red(graph.ReduceSum, n.bin(graph.Mul, dp, l.p), 1)
		ds := n.bin(graph.Mul, n.bin(graph.Mul, l.p, n.bin(graph.Sub, dp, n.bc(s, []int{T, T}, 0))), n.num(0.25))
		dq, dk := n.dot(ds, l.k, 1, 0), n.dot(ds, l.q, 0, 0)
		grads[l.wq], grads[l.wk], grads[l.wv] = n.dot(l.x, dq, 0, 0), n.dot(l.x, dk, 0, 0), n.dot(l.x, dv, 0, 0)
		g = n.bin(graph.Add, da, n.bin(graph.Add, n.dot(dq, l.wq, 1, 1), n.bin(graph.Add, n.dot(dk, l.wk, 1, 1), n.dot(dv, l.wv, 1, 1))))
	}
	grads[emb] = n.must(n.Scatter(graph.ScatterSum, n.must(n.Fill(0, f32(V, D))), tokens, g, graph.ScatterAxes{IndexVector: 1, StartIndex: []int{0}, Window: []int{1}, Inserted: []int{0}}))
	outs := []graph.Value{loss}
	var ups [][3]graph.Value
	zero := func(s graph.Shape) graph.Value { return par(s, 0, true) }
	before := n.param(f32())
	n.inputs = append(n.inputs, floats(0))
	n.donate = append(n.donate, true)
	tt := n.bin(graph.Add, before, n.num(1))
	c1 := n.bin(graph.Sub, n.num(1), n.bin(graph.Pow, n.num(0.9), tt))
	c2 := n.bin(graph.Sub, n.num(1), n.bin(graph.Pow, n.num(0.999), tt))
	outs = append(outs, tt)
	for _, w := range ws {
		m, v := zero(w.Shape()), zero(w.Shape())
		gr := grads[w]
		if ranks {
			gr = testkit.Must(n.AllReduce(graph.AllReduceOptions{Mean: true}, gr))(t)[0]
		}
		m2 := n.bin(graph.Add, n.bin(graph.Mul, m, n.num(0.9)), n.bin(graph.Mul, gr, n.num(0.1)))
		v2 := n.bin(graph.Add, n.bin(graph.Mul, v, n.num(0.999)), n.bin(graph.Mul, n.bin(graph.Mul, gr, gr), n.num(0.001)))
		up := n.bin(graph.Div, n.bin(graph.Div, m2, c1), n.bin(graph.Add, n.un(graph.Sqrt, n.bin(graph.Div, v2, c2)), n.num(1e-8)))
		ups = append(ups, [3]graph.Value{n.bin(graph.Sub, w, n.bin(graph.Mul, up, n.num(0.01))), m2, v2})
	}
	for _, u := range ups {
		outs = append(outs, u[0])
	}
	for _, u := range ups {
		outs = append(outs, u[1], u[2])
	}
	testkit.OK(t, n.SetOutputs(outs...))
	return n
}

// train runs steps, each with the results of the one before, and returns all results.
func train(t *testing.T, n *net, x *step.Executable, steps int) (out [][]byte) {
	params := n.Parameters()
	in := make([]*step.Tensor, len(params))
	for i, p := range params {
		var err error
		if in[i], err = x.Memory().Put(n.inputs[i], p.Shape()); err != nil {
			t.Error(err)
			return
		}
	}
	for range steps {
		res, err := x.Run(context.Background(), in, n.donate)
		if err != nil {
			t.Error(err)
			return
		}
		for _, r := range res {
			b := make([]byte, r.Shape().Bytes())
			if err := r.Read(b); err != nil {
				t.Error(err)
			}
			out = append(out, b)
		}
		_ = res[0].Free()
		nw := (len(res) - 2) / 3
		for i := range nw {
			in[2+i] = res[2+i]
		}
		in[2+nw] = res[1]
		for i := range 2 * nw {
			in[3+nw+i] = res[2+nw+i]
		}
	}
	for _, v := range in {
		_ = v.Free()
	}
	return out
}

func TestTrain(t *testing.T) {
	exec := newExecutor(t)
	n := model(t, 3)
	o := step.Options{Donate: n.donate}
	x := testkit.Must(step.Compile(n.Graph, exec, o))(t)
	defer x.Close()
	want := train(t, n, x, 5)
	// Of PyTorch 1.13, with the same weights.
	for k, loss := range []float64{4.785891, 3.078466, 2.237629, 1.136474, 1.077806} {
		got := float64(math.Float32frombits(binary.LittleEndian.Uint32(want[k*len(want)/5])))
		if !(math.Abs(got-loss) < 2e-3) {
			t.Errorf("step %d has a loss of %v, want %v", k, got, loss)
		}
	}
	same := func(what string, got [][]byte) {
		if len(got) != len(want) {
			t.Errorf("%s: %d results, want %d", what, len(got), len(want))
			return
		}
		for k := range want {
			if !bytes.Equal(got[k], want[k]) {
				t.Errorf("%s: result %d differs", what, k)
				return
			}
		}
	}
	// The gradients of all weights are 23 KiB; they are not all kept for the updates.
	if n := x.PeakBytes() - x.Plan().Resident; n > 16<<10 {
		t.Errorf("values between tasks take %d bytes", n)
	}
	most := x.PeakBytes()
	links := []float64{1e9, 0, 1e6}
	if testing.Short() {
		links = links[:1]
	}
	for _, link := range links {
		o := step.Options{Donate: n.donate, Link: link, Budget: 1}
		_, err := step.Compile(n.Graph, exec, o)
		var impossible *plan.ImpossibleError
		if !errors.As(err, &impossible) {
			t.Fatalf("a budget of one byte: %v", err)
		}
		// What is resident is most of it, and the rest has to become less all the same.
		if n := impossible.Found - x.Plan().Resident; n > 8<<10 {
			t.Errorf("link %v: values between tasks take %d bytes at least", link, n)
		}
		for _, part := range []int64{0, 1, 2} {
			o.Budget = impossible.Found + (most-impossible.Found)*part/4
			y, err := step.Compile(n.Graph, exec, o)
			if err != nil {
				t.Errorf("link %v: the least that was found does not do: %v", link, err)
				continue
			}
			same(fmt.Sprintf("link %v, budget %d", link, o.Budget), train(t, n, y, 5))
			testkit.OK(t, y.Close())
		}
	}
	// Several at once, of one executor, and runs of one executable.
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			y, err := step.Compile(n.Graph, exec, o)
			if err != nil {
				t.Error(err)
				return
			}
			same("beside others", train(t, n, y, 5))
			same("runs of several", train(t, n, x, 5))
			if err := y.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// What is wrong leaves donated inputs alone; a run that was begun does not.
func TestRunRefuses(t *testing.T) {
	exec := newExecutor(t)
	m := newMaker(t)
	p := m.param(f32(3))
	testkit.OK(t, m.SetOutputs(p, m.must(m.Unary(graph.Exp, p))))
	x := testkit.Must(step.Compile(m.Graph, exec, step.Options{Donate: []bool{true}}))(t)
	ctx := context.Background()
	in := testkit.Must(x.Memory().Put(floats(1, 2, 3), f32(3)))(t)
	wrong := testkit.Must(x.Memory().New(f32(4)))(t)
	block := testkit.Must(x.Memory().New(f32(8)))(t)
	apart := testkit.Must(x.Memory().Wrap(block.Ptr()+4, f32(3), nil))(t)
	for what, run := range map[string]func() error{
		"no inputs":      func() error { _, err := x.Run(ctx, nil, nil); return err },
		"two inputs":     func() error { _, err := x.Run(ctx, []*step.Tensor{in, in}, []bool{true}); return err },
		"two donations":  func() error { _, err := x.Run(ctx, []*step.Tensor{in}, []bool{true, true}); return err },
		"no tensor":      func() error { _, err := x.Run(ctx, []*step.Tensor{nil}, nil); return err },
		"another shape":  func() error { _, err := x.Run(ctx, []*step.Tensor{wrong}, []bool{true}); return err },
		"a bad address":  func() error { _, err := x.Run(ctx, []*step.Tensor{apart}, nil); return err },
		"no address":     func() error { _, err := x.Memory().Wrap(0, f32(2), nil); return err },
		"a wrong Donate": func() error { _, err := step.Compile(m.Graph, exec, step.Options{Donate: make([]bool, 2)}); return err },
		"a bad budget":   func() error { _, err := step.Compile(m.Graph, exec, step.Options{Budget: -1}); return err },
	} {
		testkit.WantError(t, what, run(), step.ErrArgument)
	}
	if in.Freed() || wrong.Freed() {
		t.Error("inputs were taken by runs that did not begin")
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := x.Run(ended, []*step.Tensor{in}, []bool{true})
	testkit.WantError(t, "a context that ended", err, context.Canceled)
	if !in.Freed() {
		t.Error("a run that failed did not free what it was given")
	}
	_, err = x.Run(ctx, []*step.Tensor{in}, nil)
	testkit.WantError(t, "a donated input", err, step.ErrArgument)
	testkit.OK(t, wrong.Free())
	testkit.OK(t, block.Free())
	testkit.OK(t, x.Close())
	_, err = x.Run(ctx, []*step.Tensor{in}, nil)
	testkit.WantError(t, "a closed executable", err, step.ErrClosed)
}

// An early update does not pass what a barrier has it wait for.
func TestBarrierHoldsUpdates(t *testing.T) {
	exec := newExecutor(t)
	m := newMaker(t)
	x, w := m.param(f32(4, 4)), m.param(f32(4, 4))
	product := func(v graph.Value) graph.Value {
		return m.must(m.DotGeneral(v, v, graph.DotAxes{Contracted: [2][]int{{1}, {0}}}))
	}
	gradient := product(x)
	other := product(m.must(m.Unary(graph.Exp, x)))
	held := m.must(m.SchedulingBarrier(gradient, other))
	soon := m.must(m.Binary(graph.Sub, w, gradient))
	late := m.must(m.Binary(graph.Add, w, held))
	testkit.OK(t, m.SetOutputs(soon, late, m.must(m.Reduce(graph.ReduceSum, other, 0))))
	run := testkit.Must(step.Compile(m.Graph, exec, step.Options{}))(t)
	defer run.Close()
	order := ""
	for _, task := range run.Tasks() {
		order += task.String() + " "
	}
	if want := "DotGeneral Sub Exp DotGeneral Add ReduceSum "; order != want {
		t.Errorf("the order is %s, want %s", order, want)
	}
}
