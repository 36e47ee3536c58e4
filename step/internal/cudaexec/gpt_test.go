package cudaexec

import (
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
)

// roomy is a library for products that wants as much memory as that of CUDA.
type roomy struct{ blas.BLAS }

func (roomy) WorkspaceBytes() int64 { return 32 << 20 }

// h200 is about how many seconds an H200 takes for a task of a large GPT. The step without
// a budget takes 252.5 ms by the times that were measured task by task, as it does by
// these.
func h200(t *step.Task) float64 {
	const launch = 2e-6
	last := t.Nodes[len(t.Nodes)-1]
	_, products := last.Work()
	switch last.Op {
	case graph.DotGeneral:
		if products < 100e9 {
			return launch + products/335e12
		}
		return launch + products/364e12
	case graph.Attention:
		return launch + products/98e12
	case graph.AttentionBackward:
		return launch + products/82e12
	}
	var bytes, work float64
	for _, list := range [][]graph.Value{t.Inputs, t.Outputs} {
		for _, v := range list {
			bytes += float64(v.Shape().Bytes())
		}
	}
	errors := map[graph.Value]bool{} // functions of one value are computed once
	for _, n := range t.Nodes {
		size := float64(n.Shapes[0].Size())
		switch {
		case n.Op == graph.Erf && !errors[n.Inputs[0]]:
			errors[n.Inputs[0]] = true
			work += 2e-12 * size
		case n.Op == graph.Exp:
			work += 0.6e-12 * size
		}
	}
	return launch + max(bytes/3.25e12, work)
}

// BenchmarkPlanGPT plans the step of a GPT that fills an H200, with its rates, without and
// within budgets.
func BenchmarkPlanGPT(b *testing.B) {
	e := openTest(b)
	e.blas = roomy{e.blas}
	c := models.GPT{Layers: 24, Width: 2048, Heads: 16, Batch: 16, Length: 1024, Vocabulary: 32768, Type: dtype.BF16}
	m := testkit.Must(c.Model())(b)
	for b.Loop() {
		for _, budget := range []float64{0, 13.7, 12} {
			start := time.Now()
			p, err := step.Plan(m.Graph, e, step.Options{Budget: int64(budget * (1 << 30)), Link: 49.5e9, Seconds: h200, Donate: m.Donate, Lend: m.Lend})
			testkit.OK(b, err)
			b.Logf("%v GiB: planned in %v\n%v", budget, time.Since(start), p)
		}
	}
}
