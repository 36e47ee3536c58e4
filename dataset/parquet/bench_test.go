package parquet

import (
	"context"
	"math/rand/v2"
	"testing"

	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// benchFile has a row group of ten columns of floats and a list.
func benchFile(b *testing.B) string {
	const rows, width = 20_000, 10
	rng := rand.New(rand.NewPCG(1, 1))
	var fields schema.FieldList
	var group []values
	for i := range width {
		column := make([]float32, rows)
		for k := range column {
			column[k] = rng.Float32()
		}
		fields, group = append(fields, required(string(rune('a'+i)), f32)), append(group, values{of: column})
	}
	list := make([][]float32, rows)
	for i := range list {
		for range 64 {
			list[i] = append(list[i], rng.Float32())
		}
	}
	return write(b, temp(b, "a.parquet"), append(fields, listOf("x", f32)), [][]values{append(group, lists(list...))},
		pq.WithCompression(compress.Codecs.Snappy), pq.WithDictionaryDefault(false))
}

// BenchmarkDecode decodes a row group on one core.
func BenchmarkDecode(b *testing.B) {
	path := benchFile(b)
	for name, opts := range map[string]Options{
		"columns":      {Columns: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}},
		"list":         {Columns: []string{"x"}},
		"list-as-bf16": {Columns: []string{"x"}, DType: dtype.BF16},
	} {
		b.Run(name, func(b *testing.B) {
			d, err := Open(context.Background(), path, opts)
			testkit.OK(b, err)
			b.SetBytes(int64(d.Len() * d.Spec().Bytes()))
			for b.Loop() {
				_, err := d.decode(context.Background(), d.groups[0])
				testkit.OK(b, err)
			}
		})
	}
}

// BenchmarkRead reads samples of a row group that is in the cache.
func BenchmarkRead(b *testing.B) {
	d, err := Open(context.Background(), benchFile(b), Options{Columns: []string{"a", "b"}})
	testkit.OK(b, err)
	b.RunParallel(func(pb *testing.PB) {
		r, err := d.NewReader()
		testkit.OK(b, err)
		sample := make([]byte, d.Spec().Bytes())
		for i := 0; pb.Next(); i++ {
			testkit.OK(b, r.Read(context.Background(), dataset.Visit{Index: i % d.Len()}, sample))
		}
	})
}
