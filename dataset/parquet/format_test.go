package parquet

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestFormat: dataset.Open makes pictures of a column of bytes, and else rows of
// numbers, of a file, a folder and a pattern.
func TestFormat(t *testing.T) {
	dir := t.TempDir()
	png := datatest.PNG(t, 9)
	write(t, filepath.Join(dir, "photos.parquet"), imageFields(), [][]values{images([][]byte{png, png}, []int64{1, 0})})
	numbers := schema.FieldList{required("a", f32), required("b", f32), required("class", i32)}
	rows := []values{{of: []float32{1, 2}}, {of: []float32{3, 4}}, {of: []int32{7, 8}}}
	write(t, filepath.Join(dir, "n", "0.parquet"), numbers, [][]values{rows})
	write(t, filepath.Join(dir, "n", "1.parquet"), numbers, [][]values{rows})
	for _, c := range []struct {
		path string
		opts dataset.Options
		want string
	}{
		{"photos.parquet", dataset.Options{"label": "label", "size": 8}, "2 of 8x8x3 u8, the first of class 1"},
		{"photos.parquet", dataset.Options{"field": "label"}, "2 of 1 i64, the first of class -1"},
		{"n/0.parquet", dataset.Options{"label": "class"}, "2 of 2 f32, the first of class 7"},
		{"n/0.parquet", dataset.Options{"field": "b,a"}, "2 of 2 f32, the first of class -1"},
		{"n", dataset.Options{"label": "class"}, "4 of 2 f32, the first of class 7"},
		{"n/*.parquet", dataset.Options{"label": "class"}, "4 of 2 f32, the first of class 7"},
	} {
		d, err := dataset.Open(t.Context(), filepath.Join(dir, filepath.FromSlash(c.path)), c.opts)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		if got := fmt.Sprintf("%d of %v, the first of class %d", d.Len(), d.Spec(), d.Label(0)); got != c.want {
			t.Errorf("%s, %v: %s, want %s", c.path, c.opts, got, c.want)
		}
		if sharded, ok := dataset.As[interface{ Shards() []int }](d); !ok || len(sharded.Shards()) == 0 {
			t.Errorf("%s: no shards", c.path)
		}
	}
	_, err := dataset.Open(t.Context(), filepath.Join(dir, "n", "0.parquet"), dataset.Options{"label": "nothing"})
	testkit.WantError(t, "label", err, dataset.ErrArgument, "nothing", "0.parquet")
}

// TestLabels: texts become classes with a table over all files and row groups, and
// floats targets.
func TestLabels(t *testing.T) {
	texts := func(list ...string) (out []pq.ByteArray) {
		for _, s := range list {
			out = append(out, pq.ByteArray(s))
		}
		return out
	}
	fields := schema.FieldList{required("x", f32), leaf("kind", pq.Repetitions.Optional, schema.StringLogicalType{}, pq.Types.ByteArray, -1), optional("price", f64)}
	group := func(kinds []string, defs []int16, prices []float64, priceDefs []int16) []values {
		return []values{{of: []float32{1, 2}}, {of: texts(kinds...), defs: defs}, {of: prices, defs: priceDefs}}
	}
	both := []int16{1, 1}
	path := write(t, temp(t, "a.parquet"), fields, [][]values{
		group([]string{"dog", "ant"}, both, []float64{1.5, 2}, both),
		group([]string{"bee"}, []int16{0, 1}, []float64{3}, []int16{1, 0}),
	})
	d, err := Open(t.Context(), path, Options{Columns: []string{"x"}, Label: "kind"})
	testkit.OK(t, err)
	if _, labels := readRows(t, d); fmt.Sprint(labels) != "[2 0 -1 1]" || fmt.Sprint(dataset.Classes(d)) != "[ant bee dog]" || dataset.Targets(d) != nil {
		t.Errorf("%v of %q", labels, dataset.Classes(d))
	}
	d, err = Open(t.Context(), path, Options{Columns: []string{"x"}, Label: "price"})
	testkit.OK(t, err)
	targets := dataset.Targets(d)
	if targets == nil || d.Label(0) != -1 {
		t.Fatal("floats are no targets")
	}
	samples, _ := datatest.ReadAll(t, targets)
	list, err := dataset.Elements[float32](slices.Concat(samples...))
	if fmt.Sprint(list) != "[1.5 2 3 NaN]" || err != nil {
		t.Errorf("targets %v, %v", list, err)
	}
}

// TestFill: the option stands for nulls, which are errors of their samples without
// it; columns of text are left out, with a warning.
func TestFill(t *testing.T) {
	fields := schema.FieldList{optional("x", f32), leaf("kind", pq.Repetitions.Required, schema.StringLogicalType{}, pq.Types.ByteArray, -1)}
	path := write(t, temp(t, "a.parquet"), fields, [][]values{{{of: []float32{5}, defs: []int16{1, 0}}, {of: []pq.ByteArray{[]byte("a"), []byte("b")}}}})
	for _, opts := range []dataset.Options{nil, {"fill": "-1"}} {
		d, err := dataset.Open(t.Context(), path, opts)
		testkit.OK(t, err)
		if warnings := dataset.Warnings(d); len(warnings) != 1 || warnings[0] != `left out, as they hold no plain numbers: "kind" (Columns, --field)` {
			t.Errorf("warnings: %q", warnings)
		}
		sample := make([]byte, 4)
		r := testkit.Must(d.NewReader())(t)
		err = r.Read(t.Context(), dataset.Visit{Index: 1}, sample)
		if opts == nil {
			testkit.WantError(t, "a null", err, dataset.ErrFormat, "a.parquet[1]", `column "x" is null`, "--fill")
			continue
		}
		testkit.OK(t, err)
		if !slices.Equal(sample, datatest.Floats(-1)) {
			t.Errorf("a null is %v", sample)
		}
	}
	d, err := dataset.Open(t.Context(), path, dataset.Options{"field": "x"})
	testkit.OK(t, err)
	if warnings := dataset.Warnings(d); warnings != nil {
		t.Errorf("warnings where columns are named: %q", warnings)
	}
}
