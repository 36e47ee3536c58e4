package transfer

import (
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// The path that the model says is fastest comes first, and one that is for
// boxes only for boxes.
func TestRowsRanking(t *testing.T) {
	line := func(block, perByte float64) (c linkmodel.Curve) {
		for n := int64(4 << 10); n <= 1<<20; n *= 4 {
			c = append(c, linkmodel.Point{Bytes: n, Seconds: block + float64(n)*perByte})
		}
		return c
	}
	e := &Engine{options: Options{Model: &linkmodel.Model{Batches: []linkmodel.Batch{
		{Path: string(BatchLoop), Direction: "h2d", CallSeconds: 0, Block: line(2e-6, 2e-11)},
		{Path: string(BatchKernel), Direction: "h2d", CallSeconds: 6e-6, Block: line(1e-9, 2.01e-11)},
		{Path: string(BatchBox), Direction: "h2d", CallSeconds: 5e-6, Block: line(1e-9, 2e-11)},
		{Path: string(BatchDriver), Direction: "d2h", CallSeconds: 1e-6, Block: line(1e-6, 2e-11)},
	}}}}
	list := func(n, bytes int64) rows {
		return &blockList{whole: true, blocks: make([]Block, n), seen: rowsPart{to: int(n), bytes: n * bytes}, ends: []int64{n * bytes}}
	}
	box := func(n, bytes int64) rows { return &boxRows{rows: n, planes: 1, bytes: bytes} }
	for _, c := range []struct {
		name string
		d    direction
		rows rows
		want []BatchPath
	}{
		{"few", hostToDevice, list(2, 4096), []BatchPath{BatchLoop, BatchBox, BatchKernel}},
		{"many: two about the same", hostToDevice, list(2000, 4096), []BatchPath{BatchKernel, BatchBox, BatchLoop}},
		{"a box", hostToDevice, box(2000, 4096), []BatchPath{BatchKernel, BatchBox, BatchLoop}},
		{"the other way", deviceToHost, box(2, 4096), []BatchPath{BatchDriver}},
		{"thumb, large", deviceToDevice, list(2, 1<<20), []BatchPath{BatchLoop}},
		{"thumb, small", deviceToDevice, list(2, 1000), preferred},
	} {
		if got := e.rowsRanking(c.d, c.rows); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
