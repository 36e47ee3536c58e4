package parquet

import (
	"context"
	"fmt"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestOtherWriter: testdata/parquet-go.parquet was written by another library,
// github.com/parquet-go/parquet-go v0.32.0: 5 rows in row groups of at most 3,
// with snappy and pages of version 2. Row i has a = i/2, b = -i but null in row
// 3, image.bytes = "picture" and i, lists x of i numbers from 10*i on, bare
// repeated numbers old of 0 to i-1, and label = i%2 with a dictionary.
func TestOtherWriter(t *testing.T) {
	const path = "testdata/parquet-go.parquet"
	fill := 99.0
	for _, c := range []struct{ column, spec, rows string }{
		{"a", "1 f32", "[[0] [0.5] [1] [1.5] [2]]"},
		{"b", "1 i16", "[[0] [-1] [-2] [99] [-4]]"},
		{"x", "<=4 f64", "[[] [10] [20 21] [30 31 32] [40 41 42 43]]"},
		{"old", "<=4 i32", "[[] [0] [0 1] [0 1 2] [0 1 2 3]]"},
	} {
		d, err := Open(context.Background(), path, Options{Columns: []string{c.column}, Label: "label", Fill: &fill})
		testkit.OK(t, err)
		rows, labels := readRows(t, d)
		if d.Spec().String() != c.spec || fmt.Sprint(rows) != c.rows || fmt.Sprint(labels) != "[0 1 0 1 0]" {
			t.Errorf("%s: %v, %v, labels %v", c.column, d.Spec(), rows, labels)
		}
	}
	d, err := OpenFiles(context.Background(), path, FileOptions{})
	testkit.OK(t, err)
	r, err := d.NewFileReader()
	testkit.OK(t, err)
	for i := range 5 {
		if b, err := r.ReadFile(context.Background(), i, nil); string(b) != fmt.Sprint("picture", i) || err != nil {
			t.Errorf("file %d: %q, %v", i, b, err)
		}
	}
}
