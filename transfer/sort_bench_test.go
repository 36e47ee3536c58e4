package transfer

import (
	"math/rand/v2"
	"testing"
)

// What a batch of shuffled blocks costs before the first of them is queued.
func BenchmarkBatchPrepare(b *testing.B) {
	const n, size = 16384, 16 << 10
	to, from := rand.Perm(4*n), rand.Perm(4*n)
	batch := Batch{Dst: Device(1<<40, 4*n*size), Src: Device(1<<44, 4*n*size)}
	for i := range n {
		batch.Blocks = append(batch.Blocks, Block{int64(to[i]) * size, int64(from[i]) * size, size})
	}
	list := new(blockList)
	b.ReportAllocs()
	for b.Loop() {
		if err := list.fill(batch); err != nil {
			b.Fatal(err)
		}
	}
}
