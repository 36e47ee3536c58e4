package train_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local"
	"github.com/pinion-gpu/pinion/parallel/local/localtest"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/plan"
	"github.com/pinion-gpu/pinion/step/train"
)

const columns = 8

// randomStep is a step whose gradients are exact, however their means are made, with random
// updates: most go element by element, with states, masks, constants and numbers, and some
// look at the whole.
func randomStep(rng *rand.Rand, batch int) *network {
	n := &network{g: graph.New("random"), initial: map[graph.Value][]byte{}}
	x := n.v(n.g.Parameter("x", f32(batch, columns)))
	n.Batch = []graph.Value{x}
	sums := n.reduce(graph.ReduceSum, x, 0)
	mean := func(i int) graph.Value {
		return n.v(n.g.Reshape(n.bin(graph.Mul, n.v(n.g.Slice(sums, []int{i}, []int{i + 1}, nil)), n.num(1/float64(batch)))))
	}
	state := func(s graph.Shape) graph.Value {
		v := make([]float32, s.Size())
		for i := range v {
			v[i] = float32(rng.IntN(32)-16) / 4
		}
		p := n.param(s, floats(v...))
		n.State = append(n.State, train.State{Param: p})
		return p
	}
	spread := func(v graph.Value, dims []int) graph.Value { return n.v(n.g.BroadcastInDim(v, dims, nil)) }
	scalar := state(f32())
	next := map[graph.Value]graph.Value{scalar: n.bin(graph.Add, scalar, n.num(1))}
	n.Loss = n.bin(graph.Mul, n.reduce(graph.ReduceSum, sums, 0), n.num(1/float64(batch*columns)))
	all := [][]int{{64}, {8, 9}, {1, 65}, {70, 1}, {3}, {}, {1, 1}, {131}, {5, 13}, {0, 4}, {64}}
	groups := map[string][]graph.Value{}
	for k := range 2 + rng.IntN(5) {
		dims := all[rng.IntN(len(all))]
		w := state(f32(dims...))
		g := n.bin(graph.Mul, n.v(n.g.Unary(graph.Sign, w)), spread(mean(k), dims))
		n.Gradients = append(n.Gradients, g)
		pool := append(groups[fmt.Sprint(dims)], w, g)
		if rng.IntN(3) == 0 { // a gradient that is made of another
			h := n.bin(graph.Mul, g, n.num(0.5))
			n.Gradients = append(n.Gradients, h)
			pool = append(pool, h)
		}
		var own []graph.Value
		for range rng.IntN(3) {
			own = append(own, state(f32(dims...)))
		}
		pool = append(pool, own...)
		if rng.IntN(2) == 0 {
			pool = append(pool, state(f32(dims...))) // which stays as it is
		}
		pick := func() graph.Value { return pool[rng.IntN(len(pool))] }
		for range 2 + rng.IntN(8) {
			a, b := pick(), pick()
			var v graph.Value
			switch rng.IntN(10) {
			case 0:
				v = n.bin(graph.Sub, a, b)
			case 1:
				v = n.v(n.g.Where(n.bin(graph.Greater, a, b), pick(), n.num(0.5)))
			case 2:
				v = n.v(n.g.Convert(n.v(n.g.Convert(a, dtype.F16)), dtype.F32))
			case 3:
				v = n.bin(graph.Mul, a, scalar)
			case 4:
				v = n.v(n.g.Unary(graph.Tanh, a))
			case 5:
				data := make([]float32, a.Shape().Size())
				for i := range data {
					data[i] = float32(rng.IntN(3))
				}
				v = n.bin(graph.Mul, a, n.v(n.g.Constant(floats(data...), a.Shape())))
			case 6:
				v = n.bin(graph.Add, a, spread(n.num(float64(rng.IntN(3))), dims))
			case 7:
				v = n.bin(graph.Div, a, n.bin(graph.Add, n.v(n.g.Unary(graph.Abs, b)), n.num(1)))
			case 8:
				v = n.v(n.g.Identity(a))
			default:
				v = n.bin(graph.Add, a, b)
				if rng.IntN(4) == 0 && len(dims) > 0 { // by parts
					all := n.reduce(graph.ReduceAnd, n.bin(graph.Less, a, n.bin(graph.Add, v, n.num(1))), axes(len(dims))...)
					v = n.v(n.g.Where(all, v, a))
				}
				if rng.IntN(6) == 0 && len(dims) > 0 { // of all elements
					v = n.bin(graph.Mul, v, spread(n.reduce(graph.ReduceMax, v, axes(len(dims))...), dims))
				}
			}
			pool = append(pool, v)
		}
		next[w] = n.v(n.g.Unary(graph.Tanh, n.bin(graph.Sub, w, n.bin(graph.Mul, pool[len(pool)-1], n.num(0.25)))))
		for _, v := range own {
			next[v] = pick()
		}
		if rng.IntN(2) == 0 {
			groups[fmt.Sprint(dims)] = pool
		}
	}
	for i := range n.State {
		n.State[i].Next = next[n.State[i].Param]
	}
	n.Graph = n.g
	return n
}

func axes(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// Ranks that share what they can of any update have the same state, with the same bits, as
// ranks that share nothing, and as one device.
func TestShareRandom(t *testing.T) {
	seeds, shared := uint64(60), 0
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 5))
		size, accumulate := 1<<rng.IntN(3), 1<<rng.IntN(2)
		const batch, steps = 4, 3
		var data []float32 // of all steps, micro-batches, and ranks
		for range steps * accumulate * size * batch * columns {
			data = append(data, float32(rng.IntN(64)-32)/8)
		}
		states := func(size int, o train.Options) ([][][]byte, error) {
			var devices []device.Device
			for range size {
				dev := testkit.Must(device.Open("host:64MiB"))(t)
				defer dev.Close()
				devices = append(devices, dev)
			}
			all, errs := make([][][]byte, size), make([]error, size)
			comms := testkit.Must(local.New(devices...))(t)
			var together sync.WaitGroup
			for rank, c := range comms {
				together.Go(func() {
					all[rank], errs[rank] = stateOf(seed, c, o, data, steps)
					if errs[rank] != nil {
						for _, c := range comms {
							c.Abort(errs[rank])
						}
					}
				})
			}
			together.Wait()
			return all, errors.Join(errs...)
		}
		o := train.Options{Accumulate: accumulate, Compile: step.Options{BucketBytes: []int64{0, 1, 300}[rng.IntN(3)]}}
		if rng.IntN(2) == 0 {
			o.Compile.Budget = 1 // which is raised to what there has to be
			o.Compile.Link = 1e9
		}
		whole := o
		whole.Accumulate = accumulate * size // in the order of the ranks
		one, err := states(1, whole)
		if err != nil {
			t.Fatalf("seed %d: on one device: %v", seed, err)
		}
		for share := train.ShareNothing; share <= train.ShareWeights; share++ {
			o.Share = share
			got, err := states(size, o)
			if share != train.ShareNothing && errors.Is(err, train.ErrArgument) && strings.Contains(err.Error(), "nothing to share") {
				continue
			}
			if err != nil {
				t.Fatalf("seed %d: %d ranks, share %v: %v", seed, size, share, err)
			}
			if share != train.ShareNothing && size > 1 {
				shared++
			}
			for rank := range got {
				for i := range got[rank] {
					if !bytes.Equal(got[rank][i], one[0][i]) {
						t.Fatalf("seed %d: rank %d of %d, share %v: state %d is\n%v, on one device\n%v", seed, rank, size, share, i, numbers(got[rank][i]), numbers(one[0][i]))
					}
				}
			}
		}
	}
	if shared < int(seeds)/3 {
		t.Errorf("%d of %d steps were shared", shared, seeds)
	}
}

// stateOf is the state that a rank has after some steps.
func stateOf(seed uint64, c parallel.Comm, o train.Options, data []float32, steps int) (state [][]byte, err error) {
	rng := rand.New(rand.NewPCG(seed, 6))
	n := randomStep(rng, 4)
	if n.err != nil {
		return nil, n.err
	}
	exec, err := auto.Open(c.Device())
	if err != nil {
		return nil, err
	}
	defer exec.Close()
	o.Compile.Ranks = c
	r, err := train.Open(n.Step, exec, o)
	for e := (*plan.ImpossibleError)(nil); errors.As(err, &e); {
		o.Compile.Budget = e.Found
		r, err = train.Open(n.Step, exec, o)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for _, s := range n.State {
		if err := r.Put(s.Param, n.initial[s.Param]); err != nil {
			return nil, err
		}
	}
	const each = 4 * columns
	for i := range steps {
		if _, err := r.Run(context.Background(), func(micro int) ([]*step.Tensor, error) {
			at := ((i*o.Accumulate+micro)*c.Size() + c.Rank()) * each
			x, err := r.Memory().Put(floats(data[at:at+each]...), f32(4, columns))
			return []*step.Tensor{x}, err
		}); err != nil {
			return nil, err
		}
	}
	for _, s := range n.State {
		b := make([]byte, s.Param.Shape().Bytes())
		if err := r.Get(s.Param, b); err != nil {
			return nil, err
		}
		state = append(state, b)
	}
	return state, nil
}

// Ranks do the same together, in the same order, also where their parts of constants differ:
// here those of two masks, which are the same on one rank.
func TestShareConstants(t *testing.T) {
	const size, elements = 2, 128
	orders := make([]string, size)
	for _, err := range localtest.Run(t, size, "host:64MiB", func(c parallel.Comm) error {
		n := &network{g: graph.New("masks"), initial: map[graph.Value][]byte{}}
		x, w := n.v(n.g.Parameter("x", f32(4))), n.param(f32(elements), make([]byte, 4*elements))
		n.Graph, n.Batch = n.g, []graph.Value{x}
		n.Loss = n.reduce(graph.ReduceSum, x, 0)
		g := n.bin(graph.Mul, w, n.v(n.g.BroadcastInDim(n.Loss, []int{elements}, nil)))
		n.Gradients = []graph.Value{g}
		next := w
		for mask := range 2 {
			data := make([]float32, elements)
			for i := range data {
				data[i] = float32(i % 3)
				if i < elements/2 {
					data[i] += float32(mask)
				}
			}
			sum := n.reduce(graph.ReduceSum, n.bin(graph.Mul, g, n.v(n.g.Constant(floats(data...), f32(elements)))), 0)
			next = n.bin(graph.Sub, next, n.v(n.g.BroadcastInDim(sum, []int{elements}, nil)))
		}
		n.State = []train.State{{Param: w, Next: next}}
		if n.err != nil {
			return n.err
		}
		exec, err := auto.Open(c.Device())
		if err != nil {
			return err
		}
		defer exec.Close()
		r, err := train.Open(n.Step, exec, train.Options{Share: train.ShareUpdate, Compile: step.Options{Ranks: c}})
		if err != nil {
			return err
		}
		micro, _ := r.Executables()
		for _, task := range micro.Tasks() {
			if n := task.Nodes[0]; n.Op.Class() == graph.Collective {
				orders[c.Rank()] += fmt.Sprintln(n.Op, n.Shapes)
			}
		}
		return r.Close()
	}) {
		testkit.OK(t, err)
	}
	if orders[0] != orders[1] || !strings.Contains(orders[0], "ReduceScatter") {
		t.Errorf("rank 0 does %s, and rank 1 %s", orders[0], orders[1])
	}
}

// Sharing takes memory off also where sizes are no multiple of the ranks: new weights lie in
// the place of the old ones.
func TestShareOdd(t *testing.T) {
	const size, weights, elements = 4, 16, 10_003
	peak := func(share train.Sharing) (bytes int64) {
		for _, err := range localtest.Run(t, size, "host:64MiB", func(c parallel.Comm) error {
			n := &network{g: graph.New("odd"), initial: map[graph.Value][]byte{}}
			x := n.v(n.g.Parameter("x", f32(4)))
			n.Graph, n.Batch = n.g, []graph.Value{x}
			n.Loss = n.reduce(graph.ReduceSum, x, 0)
			for range weights {
				w, m := n.param(f32(elements), make([]byte, 4*elements)), n.param(f32(elements), make([]byte, 4*elements))
				g := n.bin(graph.Mul, w, n.v(n.g.BroadcastInDim(n.Loss, []int{elements}, nil)))
				mean := n.bin(graph.Add, n.bin(graph.Mul, m, n.num(0.9)), n.bin(graph.Mul, g, n.num(0.1)))
				n.Gradients = append(n.Gradients, g)
				n.State = append(n.State, train.State{Param: w, Next: n.bin(graph.Sub, w, mean)}, train.State{Param: m, Next: mean})
			}
			if n.err != nil {
				return n.err
			}
			exec, err := auto.Open(c.Device())
			if err != nil {
				return err
			}
			defer exec.Close()
			r, err := train.Open(n.Step, exec, train.Options{Share: share, Compile: step.Options{Ranks: c, BucketBytes: 4 * elements}})
			if err != nil {
				return err
			}
			if c.Rank() == 0 {
				bytes = r.PeakBytes()
			}
			return r.Close()
		}) {
			testkit.OK(t, err)
		}
		return bytes
	}
	nothing := peak(train.ShareNothing)
	for _, share := range []train.Sharing{train.ShareUpdate, train.ShareWeights} {
		if got := peak(share); got > nothing-weights*elements*4/2 {
			t.Errorf("sharing %v takes %d bytes, and nothing %d", share, got, nothing)
		}
	}
}
