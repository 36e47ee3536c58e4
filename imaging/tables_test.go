package imaging

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestTableCacheIsBounded(t *testing.T) {
	var r Resizer
	rng := rand.New(rand.NewPCG(5, 6))
	dst := make([]byte, 3*5*5)
	for size := 1; size < 3*maxTables; size++ {
		src := randomImage(rng, size, 2)
		plan := Stretch(5, 5).Plan(size, 2, 0)
		if err := r.Resize(dst, src, plan); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dst, reference(src, plan)) {
			t.Fatalf("width %d differs from the reference", size)
		}
	}
	if n := len(r.tables.recent); n != maxTables {
		t.Errorf("%d tables are kept", n)
	}
}

func testAxis(size int) axis {
	return axis{Axis: Axis{Length: size, Full: 5, N: 5}, size: size}
}

// TestTablesOfAPictureStayTogether: getting one table must not recompute
// the last few, which are still in use.
func TestTablesOfAPictureStayTogether(t *testing.T) {
	var c tables
	for size := 1; size <= maxTables; size++ {
		c.get(testAxis(size))
	}
	rng := rand.New(rand.NewPCG(11, 12))
	for range 2000 {
		var got [4]*table
		var want [4]axis
		for i := range got {
			want[i] = testAxis(1 + rng.IntN(2*maxTables))
			got[i] = c.get(want[i])
		}
		for i := range got {
			if got[i].axis != want[i] {
				t.Fatalf("table %d of %+v became that of %+v", i, want[i], got[i].axis)
			}
		}
	}
}
