package benchcmd

import (
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
)

// What people read, word for word.
func TestCurvesText(t *testing.T) {
	point := linkbench.Point{Bytes: 1 << 10, Median: 8 * 1024, Least: 1024, Most: 16 * 1024}
	large := linkbench.Point{Bytes: 1 << 30, Median: 1 << 24, Least: 1 << 23, Most: 1 << 25}
	out := newLinkOutput(&linkRun{Report: &linkbench.Report{
		Size: 1 << 30, Repeats: 7,
		Curves: []linkbench.Curve{
			{Path: "pageable", Direction: "h2d", Points: []linkbench.Point{point, large}},
			{Path: "pinned", Direction: "h2d", Points: []linkbench.Point{large}},
			{Path: "chosen", Direction: "d2h", Points: []linkbench.Point{point}},
		},
		Choice: []linkbench.Choice{{Bytes: 1 << 10, Direction: "h2d", Ratio: 1.044}, {Bytes: 1 << 30, Direction: "h2d", Ratio: 2}},
	}})
	var b strings.Builder
	out.print(&b)
	const want = `
GB/s, host to device
 SIZE  PAGEABLE  PINNED  CHOSEN / BEST
1 KiB      0.12                   1.04
1 GiB      64.0    64.0           2.00

GB/s, device to host
 SIZE  CHOSEN  CHOSEN / BEST
1 KiB    0.12
`
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("got\n%s\nwant at the end\n%s", b.String(), want)
	}
}
