package benchcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/tierbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/tierdoc"
)

func TestTierOutput(t *testing.T) {
	row := func(by string, ratio float64, filled, written int64) tierbench.Row {
		return tierbench.Row{Use: tierdoc.Use{Access: tierdoc.Sequential, Write: written > 0}, Ratio: ratio, By: by, Arrays: 64, Uses: 64, Bytes: 4e9,
			Seconds: 0.1, Filled: filled, Written: written, Least: 1e9, LRU: 2e9}
	}
	out := newTierOutput(provenance.Record{}, device.Info{ID: "cuda:0", Name: "GPU"}, time.Second,
		tierbench.Options{Budget: 4 << 30, ArrayBytes: 64 << 20},
		&tierbench.Report{LinkH2D: 50e9, LinkD2H: 40e9, Rows: []tierbench.Row{row(tierdoc.Store, 1, 0, 0), row(tierdoc.CopyAnew, 2, 4e9, 4e9)}})
	var b strings.Builder
	out.print(&b)
	const want = `cuda:0  GPU
a budget of 4 GiB, arrays of 64 MiB; GB/s
pinned memory, one array after the other: 50.00 to the device, 40.00 back

WORKING SET  sequential   USED  MOVED  OF LINK  MISSES   LEAST     LRU
1x           store       40.00   0.00    0.0 %   0.0 %  25.0 %  50.0 %

WORKING SET  sequential, written   USED  MOVED  OF LINK   MISSES   LEAST     LRU
2x           copy anew            40.00  80.00   80.0 %  100.0 %  25.0 %  50.0 %
`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
	if r := out.Rows[1]; r.MovedGBPerS != 80 || r.LinkFraction != 0.8 || r.FloorFraction < 0.199 || r.FloorFraction > 0.201 {
		t.Errorf("%+v", r)
	}
}
