package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
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
		{"chain100", chain(rng, 100), 60, []float64{0.7, 0.4, 0.2}},
		{"chain1000", chain(rng, 1000), 60, []float64{0.5, 0.1}},
		{"random60", random(rng, 60), 30, []float64{0.85, 0.7}},
		{"random300", random(rng, 300), 30, []float64{0.85, 0.7}},
		{"random2000", random(rng, 2000), 30, []float64{0.9, 0.8}},
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
