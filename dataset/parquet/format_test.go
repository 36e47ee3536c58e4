package parquet

import (
	"fmt"
	"path/filepath"
	"testing"

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
