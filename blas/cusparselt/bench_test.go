package cusparselt

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/blas/blastest"
	"github.com/pinion-gpu/pinion/blas/cublaslt"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// BenchmarkProducts times products by the dense library, tuned, and by this one, on the
// device: medians of rounds (-test.benchtime 20x) in which each has its turn.
//
//	dense-µs     the product by cuBLASLt
//	sparse-µs    that by cuSPARSELt's first choice of an algorithm
//	searched-µs  that by its fastest, after [Plan.Search]
//	compress-µs  the compression of B, once for a weight that stays
func BenchmarkProducts(b *testing.B) {
	shapes := []struct {
		name    string
		m, n, k int64
	}{
		{"square", 4096, 4096, 4096},
		// A GPT block of width 2048 with 8 sequences of 1024.
		{"gpt-qkv", 8192, 6144, 2048},
		{"gpt-out", 8192, 2048, 2048},
		{"gpt-up", 8192, 8192, 2048},
		{"gpt-down", 8192, 2048, 8192},
		// Few rows, as when tokens are generated for a batch.
		{"rows-16", 16, 8192, 8192},
		{"rows-256", 256, 8192, 8192},
	}
	for _, s := range shapes {
		for _, transposed := range []bool{true, false} {
			stored := "KxN"
			if transposed {
				stored = "NxK"
			}
			b.Run(fmt.Sprintf("%s/%s", s.name, stored), func(b *testing.B) {
				b.Setenv("XDG_CACHE_HOME", b.TempDir())
				r := open(b)
				if standIns.File != "" {
					s.m, s.n, s.k = 16, 32, 64
				}
				dense, err := cublaslt.Open(r.dev)
				if err != nil {
					b.Skip(err)
				}
				b.Cleanup(func() { testkit.OK(b, dense.Close()) })
				benchmark(b, r, dense, blas.Gemm{M: s.m, N: s.n, K: s.k, TransB: transposed, Alpha: 1, Type: dtype.BF16})
			})
		}
	}
}

func benchmark(b *testing.B, r *rig, dense blas.BLAS, g blas.Gemm) {
	x := r.compressed(g)
	searched, err := Open(r.dev) // its plans are others
	testkit.OK(b, err)
	b.Cleanup(func() { testkit.OK(b, searched.Close()) })
	best, err := searched.Plan(g)
	testkit.OK(b, err)
	testkit.OK(b, best.Search(r.stream, x.a, x.compressed, x.c))
	space, scratch := r.alloc(best.WorkspaceBytes()), r.alloc(x.ScratchBytes())
	g.A.Ptr, g.B.Ptr, g.C.Ptr = x.a, x.b, x.c
	g.WorkspaceBytes = dense.WorkspaceBytes()
	g.Workspace = r.alloc(g.WorkspaceBytes)
	if tuner, ok := dense.(blas.Tuner); ok {
		testkit.OK(b, tuner.Tune(r.stream, g))
	}
	variants := []struct {
		name  string
		queue func() error
		times []time.Duration
	}{
		{name: "dense", queue: func() error { return dense.Gemm(r.stream, g) }},
		{name: "sparse", queue: func() error { return x.Gemm(r.stream, x.a, x.compressed, x.c, x.space) }},
		{name: "searched", queue: func() error { return best.Gemm(r.stream, x.a, x.compressed, x.c, space) }},
		{name: "compress", queue: func() error { return x.Compress(r.stream, x.b, x.compressed, scratch) }},
	}
	agree(b, r, &g, variants[0].queue, variants[1].queue)
	agree(b, r, &g, variants[0].queue, variants[2].queue)
	start, end := event(b, r.dev), event(b, r.dev)
	const launches = 10
	time := func(queue func() error) time.Duration {
		testkit.OK(b, r.stream.Record(start))
		for range launches {
			testkit.OK(b, queue())
		}
		testkit.OK(b, r.stream.Record(end))
		testkit.OK(b, end.Synchronize())
		took, err := end.Since(start)
		testkit.OK(b, err)
		return took / launches
	}
	for i := range variants {
		time(variants[i].queue) // warms up
	}
	for b.Loop() {
		for i := range variants {
			v := &variants[i]
			v.times = append(v.times, time(v.queue))
		}
	}
	for _, v := range variants {
		b.ReportMetric(float64(stats.Median(v.times).Nanoseconds())/1e3, v.name+"-µs")
	}
	b.ReportMetric(float64(stats.Median(variants[0].times))/float64(max(stats.Median(variants[2].times), 1)), "dense/searched")
	b.ReportMetric(0, "ns/op") // of a round, which means nothing
}

// agree compares some elements of the results of two products.
func agree(b *testing.B, r *rig, g *blas.Gemm, one, other func() error) {
	b.Helper()
	_, _, c := g.Shapes()
	var results [2][]byte
	for i, queue := range []func() error{one, other} {
		testkit.OK(b, r.stream.Memset(g.C.Ptr, 0xff, c.Bytes))
		testkit.OK(b, queue())
		results[i] = r.download(g.C.Ptr, int(c.Bytes))
	}
	for i := int64(0); i < g.M*g.N; i += 101 {
		v, w := blastest.At(results[0], i, g.Type), blastest.At(results[1], i, g.Type)
		if !(math.Abs(v-w) <= math.Abs(v)/64+math.Sqrt(float64(g.K))/256) {
			b.Fatalf("element %d is %v by the dense product, and %v", i, v, w)
		}
	}
}

func event(b *testing.B, dev device.Device) device.Event {
	b.Helper()
	e, err := dev.NewEvent(0)
	testkit.OK(b, err)
	b.Cleanup(func() { testkit.OK(b, e.Close()) })
	return e
}
