package attention

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// BenchmarkDecode is a step of 64 sequences with 8,192 tokens each, by the heads of queries and of
// keys. GB/s count keys and values once.
func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct{ sequences, tokens, heads, keys, width int }{
		{64, 8192, 32, 32, 128}, {64, 8192, 32, 8, 128}, {64, 8192, 64, 8, 128}, {64, 8192, 32, 8, 64}, {64, 8192, 28, 4, 128}, {1, 131072, 32, 8, 128},
		{256, 1024, 32, 8, 128}, {64, 8192, 8, 8, 128}, {64, 8192, 64, 32, 128},
	} {
		b.Run(fmt.Sprintf("%dx%d/%d-of-%d/%d", c.sequences, c.tokens, c.heads, c.keys, c.width), func(b *testing.B) {
			r := newRig(b)
			if _, host := device.As[device.Caller](r.dev); host {
				c.tokens = max(16, c.tokens/256)
			}
			l := Layout{Type: dtype.BF16, BlockTokens: 16, Heads: c.keys, Width: c.width, Blocks: c.sequences * c.tokens / 16}
			l.Values = l.arrayBytes()
			l.BlockBytes = 2 * l.Values
			bytes := int64(l.Blocks) * l.BlockBytes
			l.Pages = r.room(bytes)
			testkit.OK(b, r.stream.Memset(l.Pages, 0, bytes))
			order := rand.New(rand.NewPCG(1, 2)).Perm(l.Blocks)
			table, sequence, length := make([]int32, l.Blocks), make([]int32, c.sequences), make([]int32, c.sequences)
			for i := range table {
				table[i] = int32(order[i])
			}
			for i := range sequence {
				sequence[i], length[i] = int32(i), int32(c.tokens)
			}
			rows := Rows{N: c.sequences, Sequence: r.upload(sequence), Length: r.upload(length), Tables: r.upload(table), Sequences: c.sequences, TableWidth: c.tokens / 16}
			n := c.sequences * c.heads * c.width
			q := Query{Rows: rows, Query: r.upload(make([]uint16, n)), Out: r.room(int64(2 * n)), Heads: c.heads}
			q.ScratchBytes = testkit.Must(r.set.ScratchBytes(l, q))(b)
			q.Scratch = r.room(q.ScratchBytes)
			start, end := testkit.Must(r.dev.NewEvent(0))(b), testkit.Must(r.dev.NewEvent(0))(b)
			testkit.OK(b, r.set.Attend(r.stream, l, q))
			var seconds float64
			for b.Loop() {
				testkit.OK(b, r.stream.Record(start))
				testkit.OK(b, r.set.Attend(r.stream, l, q))
				testkit.OK(b, r.stream.Record(end))
				testkit.OK(b, r.stream.Synchronize())
				seconds += testkit.Must(end.Since(start))(b).Seconds()
			}
			b.ReportMetric(seconds/float64(b.N)*1e6, "device-µs/op")
			b.ReportMetric(float64(bytes)*float64(b.N)/seconds/1e9, "GB/s")
		})
	}
}
