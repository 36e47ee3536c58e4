package access_test

import (
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/access"
)

func must(v graph.Value, err error) graph.Value {
	if err != nil {
		panic(err)
	}
	return v
}

func TestSpaceOf(t *testing.T) {
	g := graph.New("spaces")
	x := must(g.Parameter("x", graph.MakeShape(dtype.F32, 100, 3, 8)))
	reduce := func(axes ...int) graph.Value { return must(g.Reduce(graph.ReduceSum, x, axes...)) }
	for _, c := range []struct {
		of   graph.Value
		want access.Space
	}{
		{must(g.Binary(graph.Add, x, x)), access.Space{Kind: access.Loop, N: 2400}},
		{reduce(2), access.Space{Kind: access.Rows, Rows: 300, Columns: 8}},
		{reduce(1, 2), access.Space{Kind: access.Rows, Rows: 100, Columns: 24}},
		{reduce(0), access.Space{Kind: access.Columns, Rows: 100, Columns: 24}},
		{reduce(1), access.Space{}}, // neither
	} {
		if got := access.SpaceOf(c.of); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.of.Node().Op, got, c.want)
		}
	}
	loop, rows := access.SpaceOf(must(g.Binary(graph.Add, x, x))), access.SpaceOf(reduce(2))
	if both, ok := access.Together(loop, rows); !ok || both != rows {
		t.Errorf("a loop over the elements of rows: %+v, %t", both, ok)
	}
	if both, ok := access.Together(rows, access.SpaceOf(reduce(1, 2))); ok {
		t.Errorf("rows of other lengths: %+v", both)
	}
}

func TestBase(t *testing.T) {
	g := graph.New("views")
	x := must(g.Parameter("x", graph.MakeShape(dtype.F32, 6, 4)))
	flat := must(g.Reshape(x, 24))
	again := must(g.Reshape(flat, 4, 6))
	var s access.Views
	if b := s.Base(again); b != x {
		t.Errorf("the base is %v", b)
	}
	s.Given = map[graph.Value]bool{flat: true}
	if b := s.Base(again); b != flat {
		t.Errorf("the base is %v, though another view is given", b)
	}
	turned := must(g.Transpose(x, 1, 0))
	if v, axes := s.Factor(turned); v != x || axes[0] != 1 || axes[1] != 0 {
		t.Errorf("a factor is %v by axes %v", v, axes)
	}
}
