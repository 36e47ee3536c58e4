package graph_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step/graph"
)

// Buckets are filled in the order in which values are computed; what reads a result comes
// behind its bucket, and a sum of sums has a bucket of its own.
func TestBucket(t *testing.T) {
	m := newMaker(t)
	mean := func(v graph.Value) graph.Value {
		return testkit.Must(m.AllReduce(graph.AllReduceOptions{Mean: true}, v))(t)[0]
	}
	x := m.param(f32(4))
	a := m.must(m.Unary(graph.Exp, x))
	ra := m.must(m.Unary(graph.Neg, mean(a)))
	b := m.must(m.Unary(graph.Sin, a))
	c := m.must(m.Unary(graph.Cos, b))
	sums := testkit.Must(m.AllReduce(graph.AllReduceOptions{Mean: true}, c, b))(t)
	half := mean(m.must(m.Convert(c, dtype.F16)))
	again := mean(m.must(m.Binary(graph.Add, ra, sums[1])))
	testkit.OK(t, m.SetOutputs(ra, sums[0], half, again))
	got := graph.Bucket(m.Graph, 32).String()
	want := `graph "TestBucket"
  %0 = Parameter {Name:p0 Index:0} : f32[4]
  %1 = Exp %0 : f32[4]
  %2 = Sin %1 : f32[4]
  %3 = AllReduce %1 %2 {Mean:true Ranks:0 Into:false Pass:0} : f32[4], f32[4]
  %4 = Neg %3 : f32[4]
  %5 = Cos %2 : f32[4]
  %6 = AllReduce %5 {Mean:true Ranks:0 Into:false Pass:0} : f32[4]
  %7 = Convert %5 : f16[4]
  %8 = AllReduce %7 {Mean:true Ranks:0 Into:false Pass:0} : f16[4]
  %9 = Add %4 %3.1 : f32[4]
  %10 = AllReduce %9 {Mean:true Ranks:0 Into:false Pass:0} : f32[4]
  return %4 %6 %8 %10
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	plain := newMaker(t)
	testkit.OK(t, plain.SetOutputs(plain.must(plain.Unary(graph.Exp, plain.param(f32(4))))))
	if graph.Bucket(plain.Graph, 32) != plain.Graph {
		t.Error("a graph without sums over ranks was written anew")
	}
}

// Of any graph, buckets make one that computes the same: every operation is there once, with
// the operands that it had.
func TestBucketRandom(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := newMaker(t)
		values := []graph.Value{m.param(f32(1)), m.param(f32(1))}
		pick := func() graph.Value { return values[rng.IntN(len(values))] }
		for range 5 + rng.IntN(30) {
			switch rng.IntN(5) {
			case 0:
				values = append(values, m.must(m.Unary(graph.Exp, pick())))
			case 1:
				values = append(values, m.must(m.Binary(graph.Add, pick(), pick())))
			case 2:
				var in []graph.Value
				for range 1 + rng.IntN(3) {
					in = append(in, pick())
				}
				values = append(values, testkit.Must(m.AllReduce(graph.AllReduceOptions{Mean: rng.IntN(4) == 0}, in...))(t)...)
			case 4:
				values = append(values, m.must(m.AllGatherInto(1, pick(), pick())))
			case 3: // of all ranks, and the own share again
				all := testkit.Must(m.AllGather(3, pick()))(t)
				values = append(values, testkit.Must(m.ReduceScatter(graph.AllReduceOptions{}, 3, all...))(t)...)
			}
		}
		testkit.OK(t, m.SetOutputs(values...))
		bucketed := graph.Bucket(m.Graph, int64(4*rng.IntN(5)))
		if got, want := meaning(bucketed), meaning(m.Graph); !slices.Equal(got, want) {
			t.Fatalf("seed %d:\n%s\nbecame\n%s", seed, m.Graph, bucketed)
		}
		for _, n := range bucketed.Nodes() {
			for _, v := range n.Inputs {
				if v.Node().ID() >= n.ID() {
					t.Fatalf("seed %d: %v comes before its operand %v", seed, n, v)
				}
			}
		}
	}
}

// meaning is what each output is made of, reductions value by value, as a number for each
// text, since texts grow.
func meaning(g *graph.Graph) (list []int) {
	of := map[graph.Value]int{}
	for _, n := range g.Nodes() {
		for i := range n.Shapes {
			text, in := n.Op.String(), n.Inputs
			switch attr := n.Attr.(type) {
			case *graph.Input:
				text += attr.Name
			case *graph.Together:
				text, in = fmt.Sprint(text, *attr), n.Inputs[i:i+1]
				if attr.Into {
					in = append(slices.Clone(in), n.Inputs[len(n.Shapes)+i])
				}
			}
			for _, v := range in {
				text += fmt.Sprint(" ", of[v])
			}
			if meanings[text] == 0 {
				meanings[text] = len(meanings) + 1
			}
			of[n.Value(i)] = meanings[text]
		}
	}
	for _, v := range g.Outputs() {
		list = append(list, of[v])
	}
	return list
}

var meanings = map[string]int{}

// What is wider than the type in which values travel is rounded to it, and has its own type
// again; all else is as it was.
func TestTravel(t *testing.T) {
	m := newMaker(t)
	wide, narrow, whole := m.param(f32(4)), m.param(graph.MakeShape(dtype.BF16, 4)), m.param(graph.MakeShape(dtype.I32, 4))
	o := graph.AllReduceOptions{Type: dtype.BF16}
	sums := testkit.Must(m.AllReduce(o, wide, narrow, whole))(t)
	shares := testkit.Must(m.ReduceScatter(o, 2, wide))(t)
	for i, want := range []graph.Shape{f32(4), graph.MakeShape(dtype.BF16, 4), graph.MakeShape(dtype.I32, 4), f32(2)} {
		if got := append(sums, shares...)[i].Shape(); !got.Equal(want) {
			t.Errorf("result %d is %v, want %v", i, got, want)
		}
	}
	for _, n := range m.Nodes() {
		if n.Op.Class() == graph.Collective && n.Inputs[0].Shape().Type != dtype.BF16 {
			t.Errorf("%v travels in %v", n, n.Inputs[0].Shape())
		}
	}
	for _, bad := range []dtype.DType{dtype.I32, dtype.F64, dtype.Bool} {
		_, err := m.AllReduce(graph.AllReduceOptions{Type: bad}, wide)
		testkit.WantError(t, bad.String(), err, graph.ErrArgument, "cannot travel in")
	}
}
