package dataset

import (
	"errors"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
)

// TestHugeFile: what a file that seems to be larger than any memory begins
// with makes no room for all of it.
func TestHugeFile(t *testing.T) {
	file := func(line string) *lineBlocks {
		return &lineBlocks{r: strings.NewReader(strings.Repeat(line, 1000)), left: 1 << 46, bytes: 4096}
	}
	csv := csvParser{opts: CSVOptions{DType: dtype.F32}}
	if err := csv.read(t.Context(), file("1,2,3\n"), 1); !errors.Is(err, ErrDamaged) {
		t.Errorf("CSV: %v", err)
	}
	if cap(csv.data) > 2*soonRoom {
		t.Errorf("room for %d bytes", cap(csv.data))
	}
	lines := jsonParser{opts: JSONOptions{DType: dtype.F64}, offsets: []int64{0}}
	if err := lines.read(t.Context(), file("[1,2,3]\n"), 1); !errors.Is(err, ErrDamaged) {
		t.Errorf("JSON lines: %v", err)
	}
}

func TestMakeRoom(t *testing.T) {
	for _, c := range []struct {
		have, more, text int
		todo             int64
		least, most      int
	}{
		{0, 400, 100, 1000, 4080, 4500}, // the whole file
		{4080, 0, 100, 1000, 4080, 4500},
		{4080, 600, 100, 100, 4680, 8500},
	} {
		data := makeRoom(make([]byte, c.have), c.more, c.text, c.todo)
		if len(data) != c.have || cap(data) < c.least || cap(data) > c.most {
			t.Errorf("%+v: %d of %d", c, len(data), cap(data))
		}
	}
}
