package tierreport

import (
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page/pagetest"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/tierbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/tierdoc"
)

func TestPage(t *testing.T) {
	bench := &tierbench.Report{LinkH2D: 50e9, LinkD2H: 48e9, Pressure: tierbench.Pressure{Arrays: 128, Touches: 256, Allocs: 64}}
	for _, by := range []string{tierdoc.Store, tierdoc.Announced, tierdoc.CopyAnew} {
		for _, write := range []bool{false, true} {
			for _, ratio := range []float64{0.5, 4} {
				seconds := 0.06
				if by == tierdoc.CopyAnew {
					seconds = 0.1
				}
				bench.Rows = append(bench.Rows, tierbench.Row{Use: tierdoc.Use{Access: tierdoc.Sequential, Write: write}, Ratio: ratio, By: by,
					Arrays: 64, Uses: 64, Bytes: 4e9, Seconds: seconds, Filled: 3e9, Written: 3e9, Least: int64(ratio) * 750e6, LRU: 4e9})
			}
		}
	}
	bench.Rows = append(bench.Rows, tierbench.Row{Use: tierdoc.Use{Access: tierdoc.Zipf}, Ratio: 2, By: tierdoc.Announced, Bytes: 4e9, Seconds: 0.1, Filled: 1.05e9, Least: 1e9, LRU: 2e9})
	var b strings.Builder
	err := Render(&b, &Report{
		MeasuredAt: "2026-01-02T03:04:05Z", Commit: "abcdef", Platform: "linux/amd64", CPU: "Some CPU", CPUs: 16,
		Device: device.Info{Name: "Some <GPU>"}, Options: tierbench.Options{Budget: 4 << 30, ArrayBytes: 64 << 20, Seconds: 0.5}, Bench: bench,
	})
	if err != nil {
		t.Fatal(err)
	}
	pagetest.Check(t, b.String())
	for _, want := range []string{"Some &lt;GPU&gt;", "66.7 GB/s", "a budget of 4 GiB", "sequential, every byte written", "1.05", "0</b> <span class=\"unit\">failures",
		"told nothing", "Some CPU, 16 CPUs", "2026-01-02T03:04:05Z"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(b.String(), "managed memory, prefetched") {
		t.Error("the legend names a line that is not there")
	}
}

// A report without rows is a page too.
func TestEmptyPage(t *testing.T) {
	var b strings.Builder
	if err := Render(&b, &Report{Bench: &tierbench.Report{}}); err != nil {
		t.Fatal(err)
	}
	pagetest.Check(t, b.String())
}

func TestColours(t *testing.T) { pagetest.Colours(t, string(page.Style(styleText)), tierdoc.Series()) }
