package step_test

import (
	"fmt"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func f32(dims ...int) graph.Shape { return graph.MakeShape(dtype.F32, dims...) }

// maker makes graphs whose operations are right.
type maker struct {
	*graph.Graph
	t testing.TB
}

func newMaker(t testing.TB) maker { return maker{graph.New(t.Name()), t} }

func (m maker) param(s graph.Shape) graph.Value {
	m.t.Helper()
	return m.must(m.Parameter(fmt.Sprintf("p%d", len(m.Parameters())), s))
}

func (m maker) must(v graph.Value, err error) graph.Value {
	m.t.Helper()
	testkit.OK(m.t, err)
	return v
}
