package train_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
)

// BenchmarkTwoOfFour times the forward products of a GPT block in a step, bf16 with 2:4
// sparse weights: as dense matrices are multiplied, and where a product is told so, with
// the compression of the weight. The times are those of the tasks on the device.
func BenchmarkTwoOfFour(b *testing.B) {
	rows, width := 8192, 2048
	if !onDevice {
		rows, width = 16, 16
	}
	for _, p := range []struct {
		name string
		k, n int
	}{{"qkv", width, 3 * width}, {"out", width, width}, {"up", width, 4 * width}, {"down", 4 * width, width}} {
		b.Run(p.name, func(b *testing.B) {
			exec := openExecutor(b)
			g := graph.New(p.name)
			shapes := []graph.Shape{graph.MakeShape(dtype.BF16, rows, p.k), graph.MakeShape(dtype.BF16, p.k, p.n)}
			x, w := testkit.Must(g.Parameter("x", shapes[0]))(b), testkit.Must(g.Parameter("w", shapes[1]))(b)
			var outputs []graph.Value
			for _, said := range []bool{false, true} {
				outputs = append(outputs, testkit.Must(g.DotGeneral(x, w, graph.DotAxes{Contracted: [2][]int{{1}, {0}}, TwoOfFour: said}))(b))
			}
			testkit.OK(b, g.SetOutputs(outputs...))
			exe := testkit.Must(step.Compile(g, exec, step.Options{}))(b)
			b.Cleanup(func() { testkit.OK(b, exe.Close()) })
			if noter, ok := exec.(step.Noter); ok {
				for _, note := range noter.Notes() {
					b.Log(note)
				}
			}
			rng := rand.New(rand.NewPCG(1, 2))
			var inputs []*step.Tensor
			for i, s := range shapes {
				data := make([]byte, 0, s.Bytes())
				for at := range s.Size() {
					v := 2*rng.Float32() - 1
					if i == 1 && at/p.n%4 > 1 {
						v = 0
					}
					data = binary.LittleEndian.AppendUint16(data, float16.ToBF16(v))
				}
				inputs = append(inputs, testkit.Must(exe.Memory().Put(data, s))(b))
			}
			var dense, sparse []float64
			for b.Loop() {
				times := testkit.Must(exe.Measure(context.Background(), inputs))(b)
				for _, task := range exe.Tasks() {
					list := &dense
					if task.Nodes[0].Attr.(*graph.DotAxes).TwoOfFour {
						list = &sparse
					}
					*list = append(*list, times.Seconds(task))
				}
			}
			for _, t := range inputs {
				testkit.OK(b, t.Free())
			}
			b.ReportMetric(stats.Median(dense)*1e6, "dense-µs")
			b.ReportMetric(stats.Median(sparse)*1e6, "said-sparse-µs")
			b.ReportMetric(0, "ns/op") // of a measurement, which means nothing
		})
	}
}
