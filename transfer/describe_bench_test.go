package transfer

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// BenchmarkDescribe is what the host does for each block of a batch inside the
// device, which copies 16 KiB in 9 ns.
func BenchmarkDescribe(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	const n, size = 16384, 16 << 10
	to, from := r.Perm(4*n), r.Perm(4*n)
	memory := Memory{device: 1 << 40, bytes: 4 * n * size}
	l := &blockList{dst: memory, src: memory}
	for i := range n {
		l.blocks = append(l.blocks, Block{Dst: int64(to[i]) * size, Src: int64(from[i]) * size, Bytes: size})
	}
	p := testkit.Must(l.scan(0, n, math.MaxInt64))(b)
	l.add(p)
	list := make([]byte, n*entryBytes)
	for name, step := range map[string]func() error{
		"scan":    func() error { _, err := l.scan(0, n, math.MaxInt64); return err },
		"pairs":   func() error { l.pairs(list, p); return nil },
		"entries": func() error { l.entries(list, p, memory.device, memory.device, 16); return nil },
		"overlap": l.overlap,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				testkit.OK(b, step())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/block")
		})
	}
}
