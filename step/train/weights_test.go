package train_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local/localtest"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/train"
)

// gpt is a GPT whose weights follow the mean of their gradients, and how it begins.
func gpt(m *models.Model) (*network, error) {
	n := &network{g: graph.New("gpt"), initial: map[graph.Value][]byte{}}
	var args []graph.Value
	for i, p := range m.Graph.Parameters() {
		v := n.v(n.g.Parameter(p.Node().Attr.(*graph.Input).Name, p.Shape()))
		args = append(args, v)
		if slices.Contains(m.Batch, i) {
			n.Batch = append(n.Batch, v)
		} else {
			n.weights = append(n.weights, v)
		}
	}
	out, err := n.g.Inline(m.Graph, args...)
	if err != nil {
		return nil, err
	}
	n.Loss, n.Gradients = out[0], out[1:]
	for i, w := range n.weights {
		mean := n.param(w.Shape(), make([]byte, w.Shape().Bytes()))
		next := n.bin(graph.Add, n.bin(graph.Mul, mean, n.num(0.9)), n.bin(graph.Mul, n.Gradients[i], n.num(0.1)))
		n.State = append(n.State,
			train.State{Param: w, Next: n.bin(graph.Sub, w, n.bin(graph.Mul, next, n.num(0.5)))},
			train.State{Param: mean, Next: next})
	}
	n.Graph = n.g
	return n, n.err
}

// New weights are gathered as soon as each rank has its share of them, while gradients of
// layers before are still computed.
func TestGathersBesideGradients(t *testing.T) {
	m := testkit.Must(models.GPT{Layers: 6, Width: 64, Heads: 2, Vocabulary: 128, Batch: 1, Length: 16, Type: dtype.F32, Optimizer: models.None}.Model())(t)
	for _, err := range localtest.Run(t, 2, "host:64MiB", func(c parallel.Comm) error {
		n, err := gpt(m)
		if err != nil {
			return err
		}
		exec, err := auto.Open(c.Device())
		if err != nil {
			return err
		}
		defer exec.Close()
		r, err := train.Open(n.Step, exec, train.Options{Share: train.ShareUpdate, Compile: step.Options{Ranks: c, BucketBytes: 64 << 10}})
		if err != nil {
			return err
		}
		order := ""
		micro, _ := r.Executables()
		for _, task := range micro.Tasks() {
			switch task.Nodes[0].Op {
			case graph.ReduceScatter:
				order += "S"
			case graph.AllGather:
				order += "G"
			case graph.DotGeneral:
				order += "."
			}
		}
		// One bucket behind the sum of the next, and the last two at the end.
		if sums := strings.Count(order, "S"); sums < 4 || strings.Count(order[:strings.LastIndex(order, "S")], "G") < sums-2 || !strings.Contains(order, "G.") {
			t.Errorf("the order is %s", order)
		}
		return r.Close()
	}) {
		testkit.OK(t, err)
	}
}

// A GPT whose weights ranks share learns what one does whose weights are whole on all. What
// a rank has of weights and means, halved on two, is a little more than half.
func TestShareWeights(t *testing.T) {
	const size, steps = 2, 3
	m := testkit.Must(models.GPT{Layers: 6, Width: 64, Heads: 2, Vocabulary: 128, Batch: 1, Length: 16, Type: dtype.F32, Optimizer: models.None}.Model())(t)
	type rank struct {
		peak  int64
		state [][]byte
		ops   map[graph.Op]int64 // bytes
	}
	run := func(c parallel.Comm, share train.Sharing, accumulate int, autocast dtype.DType) (_ *rank, err error) {
		n, err := gpt(m)
		if err != nil {
			return nil, err
		}
		exec, err := auto.Open(c.Device())
		if err != nil {
			return nil, err
		}
		defer exec.Close()
		r, err := train.Open(n.Step, exec, train.Options{Share: share, Accumulate: accumulate, Autocast: autocast, Compile: step.Options{Ranks: c, BucketBytes: 64 << 10}})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		start, err := m.Start(t.Context(), exec, r.Memory(), 1)
		if err != nil {
			return nil, err
		}
		defer func() {
			for _, t := range start {
				err = errors.Join(err, t.Free())
			}
		}()
		for i, s := range n.State {
			b := make([]byte, s.Param.Shape().Bytes())
			if i%2 == 0 {
				if err := start[slices.Index(n.g.Parameters(), s.Param)].Read(b); err != nil {
					return nil, err
				}
			}
			if err := r.Put(s.Param, b); err != nil {
				return nil, err
			}
		}
		for i := range steps {
			if _, err := r.Run(t.Context(), func(micro int) (list []*step.Tensor, err error) {
				for k, p := range m.Batch {
					b := make([]byte, m.Graph.Parameters()[p].Shape().Bytes())
					for j := range len(b) / 4 {
						b[4*j] = byte((7*j + 3*k + 5*c.Rank() + 11*(micro+i)) % 128)
					}
					x, err := r.Memory().Put(b, m.Graph.Parameters()[p].Shape())
					if err != nil {
						return list, err
					}
					list = append(list, x)
				}
				return list, nil
			}); err != nil {
				return nil, err
			}
		}
		out := &rank{peak: r.PeakBytes(), ops: map[graph.Op]int64{}}
		micro, _ := r.Executables()
		for _, node := range micro.Graph().Nodes() {
			if node.Op.Class() == graph.Collective {
				for _, s := range node.Shapes {
					out.ops[node.Op] += s.Bytes()
				}
			}
		}
		for _, s := range n.State {
			b := make([]byte, s.Param.Shape().Bytes())
			if err := r.Get(s.Param, b); err != nil {
				return nil, err
			}
			out.state = append(out.state, b)
		}
		return out, nil
	}
	ranks := func(share train.Sharing, accumulate int, autocast dtype.DType) []*rank {
		results := make([]*rank, size)
		for _, err := range localtest.Run(t, size, "host:64MiB", func(c parallel.Comm) (err error) {
			results[c.Rank()], err = run(c, share, accumulate, autocast)
			return err
		}) {
			testkit.OK(t, err)
		}
		return results
	}
	weights := 4 * m.Weights
	micro := []int{1, 3}
	if testing.Short() {
		micro = micro[1:]
	}
	for _, accumulate := range micro {
		var all [train.ShareWeights + 1]*rank
		for share := range train.Sharing(len(all)) {
			results := ranks(share, accumulate, 0)
			all[share] = results[0]
			for i := range results[0].state {
				if !bytes.Equal(results[0].state[i], results[1].state[i]) {
					t.Fatalf("%v shared, %d micro-batches: ranks have another state %d", share, accumulate, i)
				}
				a, b := numbers(all[0].state[i]), numbers(results[0].state[i])
				for j := range a {
					if d := a[j] - b[j]; d > 1e-5 || d < -1e-5 {
						t.Fatalf("%v shared, %d micro-batches: element %d of state %d is %v, and else %v", share, accumulate, j, i, b[j], a[j])
					}
				}
			}
		}
		saved := all[train.ShareNothing].peak - all[train.ShareWeights].peak
		want := weights // half of weights and means
		if accumulate > 1 {
			want += weights / 2 // and of sums of gradients
		}
		t.Logf("%d micro-batches: weights of %d bytes; peaks of %d, %d and %d", accumulate, weights, all[0].peak, all[1].peak, all[2].peak)
		if saved < want*3/4 {
			t.Errorf("%d micro-batches: weights of %d bytes; sharing them saves %d: peaks are %d, %d and %d", accumulate, weights, saved, all[0].peak, all[1].peak, all[2].peak)
		}
		if n := all[train.ShareWeights].ops[graph.AllGather]; n < weights*19/10 || n > weights*21/10 {
			t.Errorf("%d micro-batches: %d bytes are gathered, of weights of %d, twice", accumulate, n, weights)
		}
	}
	if n := ranks(train.ShareWeights, 1, dtype.BF16)[0].ops[graph.AllGather]; n < weights*9/10 || n > weights*11/10 {
		t.Errorf("in 16 bits, %d bytes are gathered, of weights of %d, twice", n, weights)
	}
}
