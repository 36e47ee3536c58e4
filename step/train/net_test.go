package train_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
	"github.com/pinion-gpu/pinion/step/train"
)

// onDevice says that kernels are compiled for each graph, which takes a while.
var onDevice = os.Getenv("PINION_DEVICE") != ""

func openExecutor(t testing.TB) step.Executor {
	exec := testkit.Must(auto.Open(devicetest.Open(t)))(t)
	t.Cleanup(func() { testkit.OK(t, exec.Close()) })
	return exec
}

// small is an executor on a host of so much memory.
func small(t testing.TB, size string) step.Executor {
	dev := testkit.Must(device.Open("host:" + size))(t)
	t.Cleanup(func() { testkit.OK(t, dev.Close()) })
	exec := testkit.Must(auto.Open(dev))(t)
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

func numbers(data []byte) []float32 {
	v := make([]float32, len(data)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return v
}

func f32(dims ...int) graph.Shape { return graph.MakeShape(dtype.F32, dims...) }

const classes = 3

// network is a training step of a perceptron that tells points of a plane apart, with
// cross-entropy, gradients and Adam.
type network struct {
	train.Step
	g       *graph.Graph
	err     error
	weights []graph.Value
	masks   []graph.Value // of the matrices, if it is sparse
	initial map[graph.Value][]byte
}

type kind struct {
	batch, hidden int
	scaler        *train.Scaler
	sparse        bool
	descent       bool // weights are updated by gradients as they are, and not by Adam
	rate          float64
}

func (n *network) v(v graph.Value, err error) graph.Value {
	if n.err == nil {
		n.err = err
	}
	return v
}

func (n *network) bin(op graph.Op, x, y graph.Value) graph.Value {
	if n.err != nil {
		return x
	}
	return n.v(n.g.Binary(op, x, y))
}

func (n *network) num(v float64) graph.Value { return n.v(n.g.Fill(v, f32())) }

func (n *network) dot(x, y graph.Value, a, b int) graph.Value {
	if n.err != nil {
		return x
	}
	return n.v(n.g.DotGeneral(x, y, graph.DotAxes{Contracted: [2][]int{{a}, {b}}}))
}

func (n *network) along(x graph.Value, like graph.Value, axis int) graph.Value {
	if n.err != nil {
		return like
	}
	return n.v(n.g.BroadcastInDim(x, like.Shape().Dims, []int{axis}))
}

func (n *network) reduce(op graph.Op, x graph.Value, axes ...int) graph.Value {
	if n.err != nil {
		return x
	}
	return n.v(n.g.Reduce(op, x, axes...))
}

func (n *network) param(s graph.Shape, data []byte) graph.Value {
	p := n.v(n.g.Parameter(fmt.Sprintf("p%d", len(n.g.Parameters())), s))
	if data != nil {
		n.initial[p] = data
	}
	return p
}

func build(k kind) (*network, error) {
	n := &network{g: graph.New("spirals"), initial: map[graph.Value][]byte{}}
	n.Graph = n.g
	rng := rand.New(rand.NewPCG(11, 12))
	x, y := n.param(f32(k.batch, 2), nil), n.param(graph.MakeShape(dtype.I32, k.batch), nil)
	n.Batch = []graph.Value{x, y}
	var biases, effective []graph.Value
	dims := []int{2, k.hidden, k.hidden, classes}
	var matrices []graph.Value
	for i := range 3 {
		w := make([]float32, dims[i]*dims[i+1])
		for j := range w {
			w[j] = float32(rng.NormFloat64() * math.Sqrt(2/float64(dims[i])))
		}
		m := n.param(f32(dims[i], dims[i+1]), floats(w...))
		matrices = append(matrices, m)
		biases = append(biases, n.param(f32(dims[i+1]), floats(make([]float32, dims[i+1])...)))
		if k.sparse {
			all := make([]byte, len(w))
			for j := range all {
				all[j] = 1
			}
			mask := n.param(graph.MakeShape(dtype.Bool, dims[i], dims[i+1]), all)
			n.masks = append(n.masks, mask)
			n.State = append(n.State, train.State{Param: mask})
			m = n.v(train.Masked(n.g, m, mask))
		}
		effective = append(effective, m)
	}
	var scale graph.Value
	if k.scaler != nil {
		state, err := k.scaler.State()
		n.v(graph.Value{}, err)
		n.Scale = n.param(train.ScalerShape, state)
		scale = n.v(k.scaler.Scale(n.g, n.Scale))
	}
	// Forward.
	h := []graph.Value{x}
	for i := range 3 {
		z := n.dot(h[i], effective[i], 1, 0)
		z = n.bin(graph.Add, z, n.along(biases[i], z, 1))
		if i < 2 {
			z = n.bin(graph.Max, z, n.num(0))
		}
		h = append(h, z)
	}
	logits := h[3]
	shifted := n.bin(graph.Sub, logits, n.along(n.reduce(graph.ReduceMax, logits, 1), logits, 0))
	e := n.v(n.g.Unary(graph.Exp, shifted))
	sum := n.reduce(graph.ReduceSum, e, 1)
	p := n.bin(graph.Div, e, n.along(sum, e, 0))
	at := n.v(n.g.Iota(graph.MakeShape(dtype.I32, k.batch, classes), 1))
	hot := n.v(n.g.Convert(n.bin(graph.Equal, at, n.along(y, at, 0)), dtype.F32))
	right := n.bin(graph.Sub, n.reduce(graph.ReduceSum, n.bin(graph.Mul, hot, shifted), 1), n.v(n.g.Unary(graph.Log, sum)))
	n.Loss = n.bin(graph.Mul, n.reduce(graph.ReduceSum, right), n.num(-1/float64(k.batch)))
	// Backward.
	d := n.bin(graph.Mul, n.bin(graph.Sub, p, hot), n.num(1/float64(k.batch)))
	if k.scaler != nil {
		d = n.bin(graph.Mul, d, scale)
	}
	gradients := make([]graph.Value, 6)
	for i := 2; i >= 0; i-- {
		gradients[2*i], gradients[2*i+1] = n.dot(h[i], d, 0, 0), n.reduce(graph.ReduceSum, d, 0)
		if i > 0 {
			d = n.dot(d, effective[i], 1, 1)
			d = n.v(n.g.Where(n.bin(graph.Greater, h[i], n.num(0)), d, n.num(0)))
		}
	}
	n.Gradients = gradients
	keep := func(next, old graph.Value) graph.Value { return next }
	if k.scaler != nil && n.err == nil {
		unscaled, finite, next, err := k.scaler.Unscale(n.g, n.Scale, gradients...)
		n.v(graph.Value{}, err)
		gradients = unscaled
		n.State = append(n.State, train.State{Param: n.Scale, Next: next})
		keep = func(next, old graph.Value) graph.Value { return n.v(n.g.Where(finite, next, old)) }
	}
	// Adam.
	count := n.param(f32(), floats(0))
	t := n.bin(graph.Add, count, n.num(1))
	n.State = append(n.State, train.State{Param: count, Next: keep(t, count)})
	c1 := n.bin(graph.Sub, n.num(1), n.bin(graph.Pow, n.num(0.9), t))
	c2 := n.bin(graph.Sub, n.num(1), n.bin(graph.Pow, n.num(0.999), t))
	for i := range 3 {
		n.weights = append(n.weights, matrices[i], biases[i])
	}
	for i, w := range n.weights {
		if k.descent {
			next := n.bin(graph.Sub, w, n.bin(graph.Mul, gradients[i], n.num(k.rate)))
			n.State = append(n.State, train.State{Param: w, Next: keep(next, w)})
			continue
		}
		zero := make([]byte, w.Shape().Bytes())
		m, v := n.param(w.Shape(), zero), n.param(w.Shape(), zero)
		gr := gradients[i]
		m2 := n.bin(graph.Add, n.bin(graph.Mul, m, n.num(0.9)), n.bin(graph.Mul, gr, n.num(0.1)))
		v2 := n.bin(graph.Add, n.bin(graph.Mul, v, n.num(0.999)), n.bin(graph.Mul, n.bin(graph.Mul, gr, gr), n.num(0.001)))
		root := n.v(n.g.Unary(graph.Sqrt, n.bin(graph.Div, v2, c2)))
		up := n.bin(graph.Div, n.bin(graph.Div, m2, c1), n.bin(graph.Add, root, n.num(1e-8)))
		next := n.bin(graph.Sub, w, n.bin(graph.Mul, up, n.num(k.rate)))
		n.State = append(n.State, train.State{Param: w, Next: keep(next, w)}, train.State{Param: m, Next: keep(m2, m)}, train.State{Param: v, Next: keep(v2, v)})
	}
	return n, n.err
}

// open makes a runner with the first weights.
func (n *network) open(t testing.TB, exec step.Executor, o train.Options) *train.Runner {
	t.Helper()
	r := testkit.Must(train.Open(n.Step, exec, o))(t)
	t.Cleanup(func() { testkit.OK(t, r.Close()) })
	for _, s := range n.State {
		testkit.OK(t, r.Put(s.Param, n.initial[s.Param]))
	}
	return r
}

func (n *network) get(t testing.TB, r *train.Runner, param graph.Value) []byte {
	t.Helper()
	b := make([]byte, param.Shape().Bytes())
	testkit.OK(t, r.Get(param, b))
	return b
}

// points are of three arms of a spiral that wind around one another, with some noise: no
// line tells two arms apart.
func points(n int, seed uint64) (x []float32, y []int32) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range n {
		arm := i % classes
		r := math.Sqrt(rng.Float64())
		a := 5*r + 2*math.Pi*float64(arm)/classes + rng.NormFloat64()*0.1
		x = append(x, float32(r*math.Cos(a)), float32(r*math.Sin(a)))
		y = append(y, int32(arm))
	}
	return x, y
}

// batches cuts points into batches of a size, over and over.
func batches(r *train.Runner, x []float32, y []int32, size int) func(int) ([]*step.Tensor, error) {
	at := 0
	return func(int) ([]*step.Tensor, error) {
		if at+size > len(y) {
			at = 0
		}
		var labels []byte
		for _, c := range y[at : at+size] {
			labels = binary.LittleEndian.AppendUint32(labels, uint32(c))
		}
		px, err := r.Memory().Put(floats(x[2*at:2*(at+size)]...), f32(size, 2))
		if err != nil {
			return nil, err
		}
		py, err := r.Memory().Put(labels, graph.MakeShape(dtype.I32, size))
		at += size
		return []*step.Tensor{px, py}, err
	}
}

// accuracy is the share of points that the weights put in the right class.
func (n *network) accuracy(t testing.TB, r *train.Runner, x []float32, y []int32) float64 {
	var w [6][]float32
	for i, p := range n.weights {
		w[i] = numbers(n.get(t, r, p))
	}
	for i, p := range n.masks {
		for j, stays := range n.get(t, r, p) {
			if stays == 0 {
				w[2*i][j] = 0
			}
		}
	}
	right := 0
	for i, want := range y {
		h := x[2*i : 2*i+2]
		for layer := range 3 {
			out := append([]float32{}, w[2*layer+1]...)
			for a, v := range h {
				for b := range out {
					out[b] += v * w[2*layer][a*len(out)+b]
				}
			}
			if layer < 2 {
				for b := range out {
					out[b] = max(out[b], 0)
				}
			}
			h = out
		}
		best := 0
		for c := range h {
			if h[c] > h[best] {
				best = c
			}
		}
		if int32(best) == want {
			right++
		}
	}
	return float64(right) / float64(len(y))
}

// run trains for some steps, and returns the results.
func run(t testing.TB, r *train.Runner, steps int, batch func(int) ([]*step.Tensor, error)) (all []train.Result) {
	t.Helper()
	for range steps {
		all = append(all, testkit.Must(r.Run(context.Background(), batch))(t))
	}
	return all
}
