package parquet

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

var (
	_ dataset.Dataset = (*Dataset)(nil)
	_ dataset.Ragged  = (*Dataset)(nil)
	_ dataset.Files   = (*Files)(nil)
)

func intLeaf(name string, physical pq.Type, bits int8, signed bool) schema.Node {
	return leaf(name, pq.Repetitions.Required, schema.NewIntLogicalType(bits, signed), physical, -1)
}

var (
	i32, i64, f32, f64 = pq.Types.Int32, pq.Types.Int64, pq.Types.Float, pq.Types.Double
	f16Leaf            = leaf("h", pq.Repetitions.Required, schema.Float16LogicalType{}, pq.Types.FixedLenByteArray, 2)
	text               = leaf("text", pq.Repetitions.Optional, schema.StringLogicalType{}, pq.Types.ByteArray, -1)
)

func TestOpen(t *testing.T) {
	null := -1.5
	for _, c := range []struct {
		name   string
		fields schema.FieldList
		values []values
		opts   Options
		spec   string
		rows   string
		labels string
	}{
		{"floats", schema.FieldList{required("a", f32), required("b", f32)},
			[]values{{of: []float32{1, 2}}, {of: []float32{3, 4.5}}}, Options{}, "2 f32", "[[1 3] [2 4.5]]", "[-1 -1]"},
		{"a label among them", schema.FieldList{required("a", f32), optional("y", i64)},
			[]values{{of: []float32{1, 2, 3}}, {of: []int64{7, -8}, defs: []int16{1, 0, 1}}}, Options{Label: "y"}, "1 f32", "[[1] [2] [3]]", "[7 -1 -8]"},
		{"a label in a struct", schema.FieldList{required("a", i32), node("y", pq.Repetitions.Required, nil, required("class", i32))},
			[]values{{of: []int32{1, 2}}, {of: []int32{7, 8}}}, Options{Label: "y"}, "1 i32", "[[1] [2]]", "[7 8]"},
		{"order of columns", schema.FieldList{required("a", f32), required("b", f32), text},
			[]values{{of: []float32{1}}, {of: []float32{3}}, {of: []pq.ByteArray{}, defs: []int16{0}}}, Options{Columns: []string{"b", "a", "b"}}, "3 f32", "[[3 1 3]]", "[-1]"},
		{"i32 and f32", schema.FieldList{required("a", f32), required("b", i32), text},
			[]values{{of: []float32{.5}}, {of: []int32{1<<31 - 1}}, {of: []pq.ByteArray{[]byte("x")}, defs: []int16{1}}}, Options{}, "2 f64", "[[0.5 2.147483647e+09]]", "[-1]"},
		{"small numbers", schema.FieldList{intLeaf("a", i32, 8, false), intLeaf("b", i32, 8, true), required("c", pq.Types.Boolean)},
			[]values{{of: []int32{255}}, {of: []int32{-128}}, {of: []bool{true}}}, Options{}, "3 i16", "[[255 -128 1]]", "[-1]"},
		{"bytes", schema.FieldList{intLeaf("a", i32, 8, false)},
			[]values{{of: []int32{255, 0}}}, Options{}, "1 u8", "[[255] [0]]", "[-1 -1]"},
		{"u32", schema.FieldList{intLeaf("a", i32, 32, false)},
			[]values{{of: []int32{-1}}}, Options{}, "1 i64", "[[4.294967295e+09]]", "[-1]"},
		{"u64 as floats", schema.FieldList{intLeaf("a", i64, 64, false)},
			[]values{{of: []int64{-1, 5}}}, Options{DType: dtype.F64}, "1 f64", "[[1.8446744073709552e+19] [5]]", "[-1 -1]"},
		{"f16", schema.FieldList{f16Leaf},
			[]values{{of: f16s(.5, -2)}}, Options{}, "1 f16", "[[0.5] [-2]]", "[-1 -1]"},
		{"bf16", schema.FieldList{required("a", f64)},
			[]values{{of: []float64{1.0001, math.Inf(1)}}}, Options{DType: dtype.BF16}, "1 bf16", "[[1] [+Inf]]", "[-1 -1]"},
		{"floats to whole numbers", schema.FieldList{required("a", f64)},
			[]values{{of: []float64{-7, 1 << 20}}}, Options{DType: dtype.I32}, "1 i32", "[[-7] [1.048576e+06]]", "[-1 -1]"},
		{"u16", schema.FieldList{intLeaf("a", i32, 16, false), required("b", f64)},
			[]values{{of: []int32{65535, 1}}, {of: []float64{2, 40000}}}, Options{DType: dtype.U16}, "2 u16", "[[65535 2] [1 40000]]", "[-1 -1]"},
		{"a fill", schema.FieldList{optional("a", f64), optional("b", i32)},
			[]values{{of: []float64{1}, defs: []int16{0, 1, 0}}, {of: []int32{2, 3}, defs: []int16{1, 0, 1}}}, Options{Fill: &null}, "2 f64", "[[-1.5 2] [1 -1.5] [-1.5 3]]", "[-1 -1 -1]"},
		{"lists of one length", schema.FieldList{listOf("x", f32), required("y", i64)},
			[]values{lists([]float32{1, 2}, []float32{3, 4}), {of: []int64{1, 0}}}, Options{Columns: []string{"x"}, Label: "y"}, "2 f32", "[[1 2] [3 4]]", "[1 0]"},
		{"lists of different lengths", schema.FieldList{listOf("x", i64)},
			[]values{lists([]int64{1, 2, 3}, []int64{}, []int64{4})}, Options{}, "<=3 i64", "[[1 2 3] [] [4]]", "[-1 -1 -1]"},
		{"lists of a known length", schema.FieldList{listOf("x", i64)},
			[]values{lists([]int64{1, 2}, []int64{3, 4})}, Options{Length: 2, DType: dtype.I8}, "2 i8", "[[1 2] [3 4]]", "[-1 -1]"},
		{"nulls in lists", schema.FieldList{listOf("x", f32)},
			[]values{{of: []float32{1, 2}, defs: []int16{3, 2, 0, 1, 2, 3}, reps: []int16{0, 1, 0, 0, 0, 1}}}, Options{Fill: &null}, "<=2 f32", "[[1 -1.5] [] [] [-1.5 2]]", "[-1 -1 -1 -1]"},
		{"an old list", schema.FieldList{leaf("x", pq.Repetitions.Repeated, nil, f32, -1)},
			[]values{{of: []float32{1, 2, 3}, defs: []int16{1, 1, 0, 1}, reps: []int16{0, 1, 0, 0}}}, Options{Columns: []string{"x"}}, "<=2 f32", "[[1 2] [] [3]]", "[-1 -1 -1]"},
		{"a field of a struct", schema.FieldList{node("s", pq.Repetitions.Optional, nil, required("x", f32), text)},
			[]values{{of: []float32{1, 2}, defs: []int16{1, 1}}, {of: []pq.ByteArray{}, defs: []int16{1, 1}}}, Options{Columns: []string{"s"}}, "1 f32", "[[1] [2]]", "[-1 -1]"},
		{"a list of structs", schema.FieldList{node("x", pq.Repetitions.Required, schema.NewListLogicalType(), node("list", pq.Repetitions.Repeated, nil,
			node("element", pq.Repetitions.Optional, nil, required("id", i32), required("area", f32))))},
			[]values{{of: []int32{7, 8}, defs: []int16{2, 2, 0}, reps: []int16{0, 1, 0}}, {of: []float32{.5, 2}, defs: []int16{2, 2, 0}, reps: []int16{0, 1, 0}}},
			Options{Columns: []string{"x.list.element.area"}}, "<=2 f32", "[[0.5 2] []]", "[-1 -1]"},
	} {
		path := write(t, temp(t, "a.parquet"), c.fields, [][]values{c.values})
		d, err := Open(context.Background(), path, c.opts)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		rows, labels := readRows(t, d)
		if got := fmt.Sprint(rows); got != c.rows || fmt.Sprint(labels) != c.labels || d.Spec().String() != c.spec {
			t.Errorf("%s: %v, rows %s, labels %v; want %s, %s, %s", c.name, d.Spec(), got, labels, c.spec, c.rows, c.labels)
		}
		if d.Name(0) != path+"[0]" {
			t.Error(d.Name(0))
		}
	}
}

func TestOpenErrors(t *testing.T) {
	fill := .5
	for _, c := range []struct {
		name   string
		fields schema.FieldList
		values []values
		opts   Options
		kind   error
		says   string
	}{
		{"no such column", schema.FieldList{required("a", f32)}, []values{{of: []float32{1}}}, Options{Columns: []string{"b"}}, dataset.ErrArgument, `no column "b"; there are "a"`},
		{"no such label", schema.FieldList{required("a", f32)}, []values{{of: []float32{1}}}, Options{Label: "b"}, dataset.ErrArgument, `no column "b"`},
		{"no columns", schema.FieldList{required("a", f32)}, []values{{of: []float32{1}}}, Options{Columns: []string{}}, dataset.ErrArgument, "no columns"},
		{"only a label", schema.FieldList{required("a", i32)}, []values{{of: []int32{1}}}, Options{Label: "a"}, dataset.ErrFormat, "no column of numbers"},
		{"text", schema.FieldList{text}, []values{{of: []pq.ByteArray{[]byte("x")}, defs: []int16{1}}}, Options{Columns: []string{"text"}}, dataset.ErrFormat, `"text" is text, want numbers`},
		{"dates", schema.FieldList{leaf("a", pq.Repetitions.Required, schema.DateLogicalType{}, i32, -1)}, []values{{of: []int32{1}}}, Options{}, dataset.ErrFormat, "no column of numbers"},
		{"numbers and lists", schema.FieldList{required("a", f32), listOf("x", f32)}, []values{{of: []float32{1}}, lists([]float32{1})}, Options{}, dataset.ErrArgument, `numbers in "a", "x"`},
		{"a map", schema.FieldList{node("m", pq.Repetitions.Required, schema.MapLogicalType{}, node("key_value", pq.Repetitions.Repeated, nil, required("key", i32), required("value", f32)))},
			[]values{{of: []int32{1}, defs: []int16{1}, reps: []int16{0}}, {of: []float32{1}, defs: []int16{1}, reps: []int16{0}}}, Options{}, dataset.ErrArgument, `"m.key_value.key", "m.key_value.value"`},
		{"two lists", schema.FieldList{listOf("a", f32), listOf("x", f32)}, []values{lists([]float32{1}), lists([]float32{1})}, Options{Columns: []string{"a", "x"}}, dataset.ErrArgument, "only one"},
		{"a label of bytes", schema.FieldList{leaf("a", pq.Repetitions.Required, nil, pq.Types.ByteArray, -1), required("b", f32)}, []values{{of: []pq.ByteArray{[]byte("x")}}, {of: []float32{1}}}, Options{Label: "a"}, dataset.ErrFormat, `column "a" is bytes, want numbers`},
		{"a large label", schema.FieldList{required("a", i64), required("b", f32)}, []values{{of: []int64{1, 1 << 31}}, {of: []float32{1, 2}}}, Options{Label: "a"}, dataset.ErrFormat, "row 1: label 2147483648"},
		{"a label of 64 bits without sign", schema.FieldList{intLeaf("a", i64, 64, false), required("b", f32)}, []values{{of: []int64{-1}}, {of: []float32{1}}}, Options{Label: "a"}, dataset.ErrFormat, "row 0: label 18446744073709551615 does not fit"},
		{"a fill that does not fit", schema.FieldList{required("a", i32)}, []values{{of: []int32{1}}}, Options{Fill: &fill}, dataset.ErrArgument, "0.5 for nulls is not a valid i32"},
		{"empty lists", schema.FieldList{listOf("x", f32)}, []values{lists([]float32{}, []float32{})}, Options{}, dataset.ErrEmpty, `"x" are empty`},
		{"no rows", schema.FieldList{required("a", f32)}, []values{{of: []float32{}}}, Options{}, dataset.ErrEmpty, "no rows"},
		{"the cache", schema.FieldList{required("a", f32)}, []values{{of: []float32{1, 2}}}, Options{CacheBytes: 7}, dataset.ErrTooLarge, "8 bytes, the cache 7"},
		{"the index", schema.FieldList{required("a", i32), intLeaf("b", i32, 8, true)}, []values{{of: []int32{1, 2}}, {of: []int32{1, 2}}}, Options{Label: "a", CacheBytes: 7}, dataset.ErrTooLarge, "labels of 2 rows take 8"},
		{"a great length", schema.FieldList{listOf("x", f32)}, []values{lists([]float32{1}, []float32{1})}, Options{Length: math.MaxInt32}, dataset.ErrTooLarge, "the cache 1073741824"},
		{"a negative length", schema.FieldList{required("a", f32)}, []values{{of: []float32{1}}}, Options{Length: -1}, dataset.ErrArgument, "-1"},
		{"a type that is none", schema.FieldList{required("a", f32)}, []values{{of: []float32{1}}}, Options{DType: 99}, dataset.ErrArgument, "99"},
		{"a negative cache", schema.FieldList{required("a", f32)}, []values{{of: []float32{1}}}, Options{CacheBytes: -1}, dataset.ErrArgument, "-1"},
	} {
		path := write(t, temp(t, "a.parquet"), c.fields, [][]values{c.values})
		_, err := Open(context.Background(), path, c.opts)
		testkit.WantError(t, c.name, err, c.kind, path, c.says)
	}
}

// TestBadSamples: what is wrong with a sample is an error of that one alone.
func TestBadSamples(t *testing.T) {
	for _, c := range []struct {
		name   string
		fields schema.FieldList
		values []values
		opts   Options
		bad    []int
		kind   error
		says   string
	}{
		{"null", schema.FieldList{required("a", f32), optional("b", f32)},
			[]values{{of: []float32{1, 2, 3}}, {of: []float32{1, 2}, defs: []int16{1, 0, 1}}}, Options{}, []int{1}, dataset.ErrFormat, `column "b" is null`},
		{"too large", schema.FieldList{required("a", i32)},
			[]values{{of: []int32{127, 128, -129, -128, 1000}}}, Options{DType: dtype.I8}, []int{1, 2, 4}, dataset.ErrFormat, "does not fit i8"},
		{"whole numbers that do not fit 16 bits", schema.FieldList{required("a", i32)},
			[]values{{of: []int32{65535, 65536, -1}}}, Options{DType: dtype.U16}, []int{1, 2}, dataset.ErrFormat, "does not fit u16"},
		{"parts", schema.FieldList{required("a", f64)},
			[]values{{of: []float64{1, 1.5, math.NaN(), math.Inf(1), 1 << 63, 2}}}, Options{DType: dtype.I64}, []int{1, 2, 3, 4}, dataset.ErrFormat, `column "a": `},
		{"f32", schema.FieldList{required("a", f64)},
			[]values{{of: []float64{1e300, math.Inf(-1), 1}}}, Options{DType: dtype.F32}, []int{0}, dataset.ErrFormat, "1e+300 does not fit f32"},
		{"u64", schema.FieldList{intLeaf("a", i64, 64, false)},
			[]values{{of: []int64{-1, 1}}}, Options{}, []int{0}, dataset.ErrFormat, "18446744073709551615 does not fit i64"},
		{"null in a list", schema.FieldList{listOf("x", f32)},
			[]values{{of: []float32{1, 2, 3, 4}, defs: []int16{3, 3, 2, 3, 3}, reps: []int16{0, 1, 0, 1, 0}}}, Options{}, []int{1}, dataset.ErrFormat, `column "x" is null`},
		{"null for a list", schema.FieldList{listOf("x", f32)},
			[]values{lists([]float32{1, 2}, nil, []float32{3, 4})}, Options{}, []int{1}, dataset.ErrFormat, `column "x" is null`},
		{"another length", schema.FieldList{listOf("x", f32)},
			[]values{lists([]float32{1, 2}, []float32{3}, []float32{4, 5, 6}, []float32{}, []float32{7, 8})}, Options{Length: 2}, []int{1, 2, 3}, dataset.ErrFormat, "want 2"},
	} {
		path := write(t, temp(t, "a.parquet"), c.fields, [][]values{c.values})
		d, err := Open(context.Background(), path, c.opts)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		r, err := d.NewReader()
		testkit.OK(t, err)
		for i := range d.Len() {
			err := r.Read(context.Background(), dataset.Visit{Index: i}, make([]byte, dataset.SampleBytes(d, i)))
			if slices.Contains(c.bad, i) {
				testkit.WantError(t, c.name, err, c.kind, fmt.Sprintf("%s[%d]: ", path, i), c.says)
			} else if err != nil {
				t.Errorf("%s: sample %d: %v", c.name, i, err)
			}
		}
	}
}

// TestManyFaults: a row group that is all bad fails as one, in little memory.
func TestManyFaults(t *testing.T) {
	n := maxFaults + 1
	path := write(t, temp(t, "a.parquet"), schema.FieldList{optional("a", f32)}, [][]values{{{of: []float32{}, defs: make([]int16, n)}}})
	d, err := Open(context.Background(), path, Options{})
	testkit.OK(t, err)
	r, err := d.NewReader()
	testkit.OK(t, err)
	err = r.Read(context.Background(), dataset.Visit{}, make([]byte, 4))
	testkit.WantError(t, "all null", err, dataset.ErrFormat, path, fmt.Sprint(n), "null")
}

// TestModel: random tables, written in all ways, are read as they were.
func TestModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	codecs := []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Zstd, compress.Codecs.Brotli, compress.Codecs.Lz4Raw}
	rounds := 24
	if testing.Short() {
		rounds = 6 // each codec once
	}
	for round := range rounds {
		props := []pq.WriterProperty{
			pq.WithCompression(codecs[round%len(codecs)]),
			pq.WithDictionaryDefault(round%2 == 0),
			pq.WithDataPageSize(int64(1 + rng.IntN(5000))),
			pq.WithBatchSize(int64(1 + rng.IntN(500))),
		}
		if round%3 == 0 {
			props = append(props, pq.WithDataPageVersion(pq.DataPageV2))
		}
		dir := t.TempDir()
		var rows, tokens [][]float64
		var sizes []int
		var labels []int32
		for shard := range 1 + rng.IntN(3) {
			var groups [][]values
			for range 1 + rng.IntN(4) {
				n := rng.IntN(3000)
				if n > 0 {
					sizes = append(sizes, n)
				}
				var a []float32
				var b []int64
				var y []int32
				b2 := values{}
				list := make([][]int32, n)
				for i := range n {
					row := []float64{float64(float32(rng.NormFloat64())), 0}
					a = append(a, float32(row[0]))
					b2.defs = append(b2.defs, int16(min(rng.IntN(10), 1)))
					if b2.defs[i] == 1 {
						row[1] = float64(rng.IntN(100))
						b = append(b, int64(row[1]))
					}
					y = append(y, int32(rng.IntN(1000)))
					rows, labels = append(rows, row), append(labels, y[i])
					list[i] = []int32{}
					var l []float64
					for range rng.IntN(6) * rng.IntN(6) {
						list[i] = append(list[i], int32(rng.IntN(1<<16)))
						l = append(l, float64(list[i][len(list[i])-1]))
					}
					tokens = append(tokens, l)
				}
				b2.of = b
				groups = append(groups, []values{{of: a}, b2, {of: y}, lists(list...)})
			}
			write(t, filepath.Join(dir, fmt.Sprintf("train-%d.parquet", shard)), schema.FieldList{required("a", f32), optional("b", i64), required("y", i32), listOf("tokens", i32)}, groups, props...)
		}
		zero := 0.0
		for _, c := range []struct {
			columns []string
			want    [][]float64
		}{{[]string{"a", "b"}, rows}, {[]string{"tokens"}, tokens}} {
			d, err := Open(context.Background(), dir, Options{Columns: c.columns, Label: "y", Fill: &zero, CacheBytes: 128 << 10})
			if len(sizes) == 0 {
				testkit.WantError(t, "no rows", err, dataset.ErrEmpty)
				continue
			}
			testkit.OK(t, err)
			if !slices.Equal(d.Shards(), sizes) {
				t.Fatalf("row groups %v, want %v", d.Shards(), sizes)
			}
			got, gotLabels := readRows(t, d)
			if !slices.Equal(gotLabels, labels) {
				t.Fatalf("round %d: labels differ", round)
			}
			if !slices.EqualFunc(got, c.want, slices.Equal[[]float64]) {
				t.Fatalf("round %d: %v differ", round, c.columns)
			}
		}
	}
}

func TestPaths(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data[1]")
	testkit.OK(t, os.Mkdir(dir, 0o777))
	one := func(name string, v float32) {
		write(t, filepath.Join(dir, name), schema.FieldList{required("a", f32)}, [][]values{{{of: []float32{v}}}})
	}
	one("train-1.parquet", 1)
	one("train-0.parquet", 0)
	one("test-0.parquet", 2)
	one(".hidden.parquet", 3)
	testkit.OK(t, os.WriteFile(filepath.Join(dir, "README.md"), nil, 0o666))
	pattern := filepath.Join(literal(dir), "train-*")
	for path, want := range map[string]string{
		dir:                                  "[[2] [0] [1]]",
		pattern:                              "[[0] [1]]",
		filepath.Join(dir, "test-0.parquet"): "[[2]]",
	} {
		if os.PathSeparator == '\\' && path != filepath.Join(dir, "test-0.parquet") {
			continue // nothing can be escaped there
		}
		d, err := Open(context.Background(), path, Options{})
		testkit.OK(t, err)
		if rows, _ := readRows(t, d); fmt.Sprint(rows) != want {
			t.Errorf("%s: %v, want %s", path, rows, want)
		}
		if g, _ := d.at(d.Len() - 1); d.Name(d.Len()-1) != g.source.path+"[0]" {
			t.Error(d.Name(d.Len() - 1))
		}
	}
	_, err := Open(context.Background(), filepath.Join(t.TempDir(), "missing.parquet"), Options{})
	testkit.WantError(t, "missing", err, fs.ErrNotExist)
	_, err = Open(context.Background(), t.TempDir(), Options{})
	testkit.WantError(t, "empty folder", err, dataset.ErrEmpty, "*.parquet")
	_, err = Open(context.Background(), "a[", Options{})
	testkit.WantError(t, "bad pattern", err, dataset.ErrArgument)
}

// TestShards: files may differ in the order and the types of columns, not in
// what there is.
func TestShards(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "0.parquet"), schema.FieldList{required("a", i32), required("b", f32)}, [][]values{{{of: []int32{1}}, {of: []float32{2}}}})
	write(t, filepath.Join(dir, "1.parquet"), schema.FieldList{required("b", f64), required("a", i32)}, [][]values{{{of: []float64{4}}, {of: []int32{3}}}})
	d, err := Open(context.Background(), dir, Options{Columns: []string{"a", "b"}})
	testkit.OK(t, err)
	if rows, _ := readRows(t, d); fmt.Sprint(rows) != "[[1 2] [3 4]]" || d.Spec().DType != dtype.F64 {
		t.Errorf("%v %v", d.Spec(), rows)
	}
	_, err = Open(context.Background(), dir, Options{})
	testkit.WantError(t, "order", err, dataset.ErrFormat, "1.parquet")
	write(t, filepath.Join(dir, "2.parquet"), schema.FieldList{required("a", i32)}, [][]values{{{of: []int32{1}}}})
	_, err = Open(context.Background(), dir, Options{Columns: []string{"a", "b"}})
	testkit.WantError(t, "missing", err, dataset.ErrArgument, "2.parquet", `no column "b"`)
}

func TestReader(t *testing.T) {
	path := write(t, temp(t, "a.parquet"), schema.FieldList{required("a", f32)}, [][]values{{{of: []float32{1}}}})
	d, err := Open(context.Background(), path, Options{})
	testkit.OK(t, err)
	r, err := d.NewReader()
	testkit.OK(t, err)
	sample := make([]byte, 4)
	ctx := context.Background()
	testkit.WantError(t, "index", r.Read(ctx, dataset.Visit{Index: 1}, sample), dataset.ErrArgument, "1 of 1")
	testkit.WantError(t, "index", r.Read(ctx, dataset.Visit{Index: -1}, sample), dataset.ErrArgument)
	testkit.WantError(t, "size", r.Read(ctx, dataset.Visit{}, sample[:3]), dataset.ErrArgument, "3 bytes")
	gone, cancel := context.WithCancel(ctx)
	cancel()
	testkit.WantError(t, "context", r.Read(gone, dataset.Visit{}, sample), context.Canceled)
	var timing dataset.Timing
	testkit.OK(t, r.Read(ctx, dataset.Visit{Timing: &timing}, sample))
	if timing.Decode <= 0 {
		t.Error(timing)
	}
	testkit.OK(t, r.Close())
	testkit.WantError(t, "closed", r.Read(ctx, dataset.Visit{}, sample), fs.ErrClosed)
}

func TestChangedFile(t *testing.T) {
	path := write(t, temp(t, "a.parquet"), schema.FieldList{required("a", f32)}, [][]values{{{of: []float32{1}}}})
	d, err := Open(context.Background(), path, Options{})
	testkit.OK(t, err)
	testkit.OK(t, os.Truncate(path, 20))
	r, err := d.NewReader()
	testkit.OK(t, err)
	testkit.WantError(t, "changed", r.Read(context.Background(), dataset.Visit{}, make([]byte, 4)), dataset.ErrDamaged, path, "changed")
	testkit.OK(t, os.Remove(path))
	testkit.WantError(t, "gone", r.Read(context.Background(), dataset.Visit{}, make([]byte, 4)), fs.ErrNotExist)
}

// TestReadersTogether: many readers of few cached row groups get what one gets.
func TestReadersTogether(t *testing.T) {
	var groups [][]values
	next := float32(0)
	for range 10 {
		var a []float32
		for range 1000 {
			a = append(a, next)
			next++
		}
		groups = append(groups, []values{{of: a}})
	}
	path := write(t, temp(t, "a.parquet"), schema.FieldList{required("a", f32)}, groups)
	d, err := Open(context.Background(), path, Options{CacheBytes: 12_000})
	testkit.OK(t, err)
	var work sync.WaitGroup
	for seed := range uint64(6) {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			r, err := d.NewReader()
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			sample := make([]byte, 4)
			for range 200 {
				i := rng.IntN(d.Len())
				if err := r.Read(context.Background(), dataset.Visit{Index: i}, sample); err != nil || numbers(sample, dtype.F32)[0] != float64(i) {
					t.Errorf("sample %d: %v, %v", i, numbers(sample, dtype.F32), err)
				}
			}
		})
	}
	work.Wait()
	if d.cache.used > d.cache.max {
		t.Errorf("%d bytes in a cache of %d", d.cache.used, d.cache.max)
	}
}

func TestOpenCancelled(t *testing.T) {
	path := write(t, temp(t, "a.parquet"), schema.FieldList{listOf("x", f32)}, [][]values{{lists([]float32{1})}})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Open(ctx, path, Options{})
	testkit.WantError(t, "cancelled", err, context.Canceled)
}
