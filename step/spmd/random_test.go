package spmd_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/spmd"
	"github.com/pinion-gpu/pinion/step/train"
)

// Any graph, split in any way, computes the same numbers: they are integers so small that
// all sums of floating-point numbers are exact. Only a zero may have another sign.
func TestRandom(t *testing.T) {
	seeds := uint64(600)
	if testing.Short() {
		seeds = 100
	}
	ops, collectives, split := map[graph.Op]int{}, map[graph.Op]int{}, 0
	for seed := range seeds {
		m := &maker{rng: rand.New(rand.NewPCG(seed, 7)), g: graph.New("random"), bound: map[graph.Value]float64{}}
		s, in := m.step(t)
		for _, n := range s.Graph.Nodes() {
			ops[n.Op]++
		}
		ranks := []int{1, 2, 2, 2, 4, 4}[m.rng.IntN(6)]
		splits := m.splits(s, ranks)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("%d ranks, splits %v, loss %v, state %v of\n%v", ranks, splits, s.Loss, s.State, s.Graph)
				}
			}()
			want := onOne(t, s, in, 2)
			got, p := onRanks(t, s, ranks, splits, in, 2)
			if !slices.Equal(got.losses, want.losses) {
				t.Errorf("losses are %v, on one device %v", got.losses, want.losses)
			}
			for i, st := range s.State {
				same := bytes.Equal(got.state[i], want.state[i])
				if st.Param.Shape().Type == dtype.F32 {
					same = slices.Equal(numbers(got.state[i]), numbers(want.state[i]))
				}
				if !same {
					t.Errorf("%v is %v, on one device %v", st.Next, got.state[i], want.state[i])
				}
			}
			for _, c := range p.Report.Collectives {
				collectives[c.Op]++
			}
			for _, axis := range p.State {
				if axis != spmd.Whole {
					split++
				}
			}
		})
	}
	for _, op := range []graph.Op{graph.AllReduce, graph.ReduceScatter, graph.AllGather} {
		if collectives[op] == 0 {
			t.Errorf("no graph has an %v", op)
		}
	}
	for _, op := range covered {
		if ops[op] == 0 {
			t.Errorf("no graph has an operation %v", op)
		}
	}
	t.Logf("%v, %d parameters split, %v", collectives, split, ops)
}

// maker makes a graph of random operations.
type maker struct {
	rng    *rand.Rand
	g      *graph.Graph
	values []graph.Value
	bound  map[graph.Value]float64 // of the magnitude of floating-point numbers
	in     inputs
}

const (
	mostBound = 1 << 22 // sums of such numbers are exact in float32
	mostSize  = 2048
)

// step is a step with random results.
func (m *maker) step(t *testing.T) (*train.Step, inputs) {
	s, batch := &train.Step{Graph: m.g}, [][]byte(nil)
	for range 2 + m.rng.IntN(4) {
		v := m.param(graph.MakeShape(m.pick(dtype.F32, dtype.F32, dtype.I32), m.dims()...))
		s.Batch, batch = append(s.Batch, v), append(batch, m.data(v.Shape(), 4))
		m.note(v, 4)
	}
	m.in.micro = [][][]byte{batch}
	for range 5 + m.rng.IntN(25) {
		m.operation()
	}
	for _, v := range m.unread() {
		next := v
		switch v.Shape().Type {
		case dtype.F32, dtype.I32:
		case dtype.F16:
			next = m.must(m.g.Convert(v, dtype.F32))
		default:
			next = m.must(m.g.Convert(v, dtype.I32))
		}
		p := m.param(next.Shape())
		m.in.state = append(m.in.state, m.data(p.Shape(), 3))
		if m.rng.IntN(3) == 0 && m.bound[v] < mostBound { // which is updated
			next = m.must(m.g.Binary(graph.Max, m.must(m.g.Binary(graph.Sub, p, next)), m.must(m.g.Fill(-9, graph.MakeShape(next.Shape().Type)))))
		}
		s.State = append(s.State, train.State{Param: p, Next: next})
		if m.rng.IntN(4) == 0 && next.Shape().Type == dtype.F32 {
			s.Gradients = append(s.Gradients, next)
		}
	}
	loss := m.value(func(v graph.Value) bool {
		return v.Shape().Type == dtype.F32 && m.bound[v]*float64(v.Shape().Size()) < mostBound
	})
	if loss == (graph.Value{}) {
		loss = m.must(m.g.Fill(1, f32(2)))
	}
	if s.Loss = loss; loss.Shape().Rank() > 0 {
		s.Loss = m.must(m.g.Reduce(graph.ReduceSum, loss))
	}
	return s, m.in
}

// splits are random annotations.
func (m *maker) splits(s *train.Step, ranks int) (splits []spmd.Split) {
	for _, p := range s.Graph.Parameters() {
		dims := p.Shape().Dims
		axes := []int{spmd.Whole}
		for axis, d := range dims {
			if d%ranks == 0 {
				axes = append(axes, axis, axis)
			}
		}
		if m.rng.IntN(4) > 0 {
			splits = append(splits, spmd.Split{Value: p, Axis: axes[m.rng.IntN(len(axes))]})
		}
	}
	return splits
}

// unread are values that no operation reads.
func (m *maker) unread() (list []graph.Value) {
	read := map[graph.Value]bool{}
	for _, n := range m.g.Nodes() {
		for _, v := range n.Inputs {
			read[v] = true
		}
	}
	for _, v := range m.values {
		if !read[v] && v.Node().Op != graph.Parameter {
			list = append(list, v)
		}
	}
	return list
}

func (m *maker) must(v graph.Value, err error) graph.Value {
	if err != nil {
		panic(err)
	}
	return v
}

func (m *maker) note(v graph.Value, bound float64) {
	if v.Shape().Size() <= mostSize && (bound <= mostBound || !v.Shape().Type.IsFloat()) && (bound <= 1024 || v.Shape().Type != dtype.F16) {
		m.values, m.bound[v] = append(m.values, v), bound
	}
}

func (m *maker) param(s graph.Shape) graph.Value {
	return m.must(m.g.Parameter(fmt.Sprint("p", len(m.g.Parameters())), s))
}

// data is numbers of a small magnitude.
func (m *maker) data(s graph.Shape, most int) []byte {
	var b []byte
	for range s.Size() {
		n := m.rng.IntN(2*most+1) - most
		if s.Type == dtype.F32 {
			b = append(b, floats(float32(n))...)
		} else {
			b = append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
		}
	}
	return b
}

// dims are a random shape's. Most lengths can be split, some cannot, and some are zero.
func (m *maker) dims() []int {
	for {
		dims := make([]int, []int{0, 1, 1, 2, 2, 2, 3, 3, 4}[m.rng.IntN(9)])
		for i := range dims {
			dims[i] = []int{0, 1, 2, 3, 4, 4, 4, 4, 6, 8, 8, 5}[m.rng.IntN(12)]
			if dims[i] == 0 && m.rng.IntN(4) > 0 {
				dims[i] = 8
			}
		}
		if graph.MakeShape(dtype.F32, dims...).Size() <= mostSize/2 {
			return dims
		}
	}
}

func (m *maker) pick(types ...dtype.DType) dtype.DType { return types[m.rng.IntN(len(types))] }

// value is a random value for which fits holds, one of the latest more often; or none.
func (m *maker) value(fits func(graph.Value) bool) graph.Value {
	for range 60 {
		i := m.rng.IntN(len(m.values))
		if m.rng.IntN(2) == 0 {
			i = max(i, len(m.values)-1-m.rng.IntN(4))
		}
		if v := m.values[min(i, len(m.values)-1)]; fits == nil || fits(v) {
			return v
		}
	}
	return graph.Value{}
}

// like is a value of the type and the shape of another, which it may be.
func (m *maker) like(v graph.Value) graph.Value {
	if w := m.value(func(w graph.Value) bool { return w.Shape().Equal(v.Shape()) }); w != (graph.Value{}) {
		return w
	}
	return v
}

func (m *maker) permutation(n int) []int { return m.rng.Perm(n) }

// some are different axes of so many, in ascending order.
func (m *maker) some(rank int) []int {
	axes := m.rng.Perm(rank)[:m.rng.IntN(rank+1)]
	slices.Sort(axes)
	return axes
}
