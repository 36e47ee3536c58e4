package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// BenchmarkMake plans graphs of many kinds. Besides the time that it takes to plan,
// it says how long the step takes and the memory that it uses, as shares of those of
// the step without a budget, and the bound.
func BenchmarkMake(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 1))
	type graph struct {
		name   string
		g      Graph
		rate   float64 // of the link
		shares []float64
	}
	list := []graph{
		{"gpt24", gpt(24, 16, 1024, 2048, 32768), 53e9, []float64{0.6, 0.42, 0.3}},
		{"chain100", chainOf(rng, 100), 60, []float64{0.7, 0.4, 0.2}},
		{"chain1000", chainOf(rng, 1000), 60, []float64{0.5, 0.1}},
		{"network40", network(rng, 40), 2e9, []float64{0.7, 0.5}},
		{"network200", network(rng, 200), 2e9, []float64{0.7, 0.4}},
		{"network2000", network(rng, 2000), 2e9, []float64{0.7, 0.3}},
		{"gpt900", gpt(900, 4, 512, 1024, 32768), 53e9, []float64{0.75, 0.6}},
	}
	for _, x := range list {
		whole, err := Make(x.g, Options{Align: 1})
		if err != nil {
			b.Fatal(err)
		}
		for _, rate := range []float64{0, x.rate} {
			for _, share := range x.shares {
				o := Options{Budget: int64(share * float64(whole.Bytes)), Out: rate, Back: rate, Align: 1}
				b.Run(fmt.Sprintf("%s/%d%%/link=%g", x.name, int(100*share+0.5), rate), func(b *testing.B) {
					var p *Plan
					var impossible *ImpossibleError
					for b.Loop() {
						var err error
						if p, err = Make(x.g, o); err != nil && !errors.As(err, &impossible) {
							b.Fatal(err)
						}
					}
					if impossible != nil {
						b.ReportMetric(float64(impossible.Found)/float64(whole.Bytes), "found")
						b.ReportMetric(float64(impossible.Least)/float64(whole.Bytes), "least")
						return
					}
					b.ReportMetric(p.Seconds/whole.Seconds, "time")
					b.ReportMetric(p.Least/whole.Seconds, "bound")
					b.ReportMetric(float64(p.Bytes)/float64(whole.Bytes), "memory")
				})
			}
		}
	}
}

// network is a training step of n layers of any kind, each of which reads what one to
// three layers before it made: products of matrices, which take long, and others,
// which take little. What the backward pass of a layer wants is what it read, or what
// it made, or both.
func network(rng *rand.Rand, n int) Graph {
	g := Graph{Values: []Value{{Name: "x", Bytes: 1 << 20}}}
	value := func(name string, i int, bytes int64) int {
		g.Values = append(g.Values, Value{Name: fmt.Sprint(name, i), Bytes: bytes})
		return len(g.Values) - 1
	}
	type layer struct {
		reads   []int
		saved   []int
		seconds float64
	}
	var layers []layer
	for i := range n {
		var l layer
		l.reads = append(l.reads, i) // value i is what layer i-1 made
		for rng.IntN(4) == 0 {
			if j := i - int(rng.ExpFloat64()*6); j >= 0 && !slices.Contains(l.reads, j) {
				l.reads = append(l.reads, j)
			}
		}
		bytes := 1 + rng.Int64N(4<<20)
		out := value("v", i, bytes)
		l.seconds = float64(bytes) / 1e12
		if rng.IntN(2) == 0 {
			l.seconds *= 5 + 20*rng.Float64()
		}
		switch rng.IntN(3) {
		case 0:
			l.saved = l.reads
		case 1:
			l.saved = []int{out}
		case 2:
			l.saved = append(slices.Clone(l.reads), out)
		}
		g.Ops = append(g.Ops, Op{Name: fmt.Sprint("forward ", i), Seconds: l.seconds, Reads: l.reads, Writes: []int{out}})
		layers = append(layers, l)
	}
	gradients := make(map[int][]int) // of each value, what was summed up of it
	gradients[n] = []int{value("g", n, g.Values[n].Bytes)}
	g.Ops = append(g.Ops, Op{Name: "loss", Seconds: 1e-6, Reads: []int{n}, Writes: gradients[n]})
	for i := n - 1; i >= 0; i-- {
		l := layers[i]
		op := Op{Name: fmt.Sprint("backward ", i), Seconds: 2 * l.seconds, Reads: append(slices.Clone(l.saved), gradients[i+1]...)}
		for _, v := range l.reads {
			d := value("g", v, g.Values[v].Bytes)
			if old := gradients[v]; len(old) > 0 { // a sum
				op.Reads = append(op.Reads, old...)
			}
			gradients[v] = []int{d}
			op.Writes = append(op.Writes, d)
		}
		g.Ops = append(g.Ops, op)
	}
	g.Values[gradients[0][0]].Output = true
	return g
}
