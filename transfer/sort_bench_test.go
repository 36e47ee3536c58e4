package transfer

import (
	"math/rand/v2"
	"testing"
)

// What the host does for a batch of shuffled blocks, beside the device: checks
// of bounds, the list, and the search for overlaps.
func BenchmarkBatchPrepare(b *testing.B) {
	const n, size = 16384, 16 << 10
	to, from := rand.Perm(4*n), rand.Perm(4*n)
	batch := Batch{Dst: Device(1<<40, 4*n*size), Src: Device(1<<44, 4*n*size)}
	for i := range n {
		batch.Blocks = append(batch.Blocks, Block{int64(to[i]) * size, int64(from[i]) * size, size})
	}
	list, entries := new(blockList), make([]byte, n*entryBytes)
	all := rowsPart{to: n}
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"bounds", func() error { _, err := list.scan(0, n, 1<<62); return err }},
		{"list", func() error { list.entries(entries, all, 1<<40, 1<<44, 16); return nil }},
		{"overlaps", func() error { return list.overlap() }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := list.fill(batch); err != nil {
					b.Fatal(err)
				}
				if c.name != "bounds" {
					list.seen = rowsPart{to: n, unsorted: true, grain: size, sizes: size}
				}
				if err := c.run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
