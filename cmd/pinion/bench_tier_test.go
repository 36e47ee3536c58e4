package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/tierbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestBenchTier(t *testing.T) {
	args := []string{"bench", "tier", "--device", "host", "--budget", "4MiB", "--array", "256KiB", "--seconds", "0.001"}
	r := pinion(t, args...)
	for _, want := range []string{"a budget of 4 MiB, arrays of 256 KiB", "sequential, written", "random", "zipf", "announced", "copy anew", "0.5x", "4x", "0 failures"} {
		if r.code != exitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("exit code %d, %q is missing in\n%s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	html := filepath.Join(t.TempDir(), "tier.html")
	args = append(args, "--report", html)
	doc := document(t, []string{"device", "budget_bytes", "array_bytes", "h2d_gb_per_s", "d2h_gb_per_s", "rows", "pressure"}, append(args, "--json")...)
	if text := testkit.ReadFile(t, html); doc["report"] != html || !strings.Contains(text, "</html>") {
		t.Errorf("%v, a page of %d bytes", doc["report"], len(text))
	}
	rows := doc["rows"].([]any)
	if len(rows) != 5*(3+2+3+3) {
		t.Errorf("%d rows", len(rows))
	}
	for _, x := range rows {
		row := x.(map[string]any)
		if row["used_bytes"].(float64) <= 0 || row["seconds"].(float64) <= 0 {
			t.Errorf("%v", row)
		}
		if row["working_set_ratio"].(float64) <= 0.5 && row["by"] == "store" && row["filled_bytes"].(float64) != 0 {
			t.Errorf("what fits moved: %v", row)
		}
	}
}

func TestBenchTierUsage(t *testing.T) {
	for _, c := range []struct{ args, say string }{
		{"--seconds 0", "above 0"},
		{"--budget 1MiB --array 512KiB", "a quarter of the budget"},
		{"--budget 0", "must be a size"},
		{"more", "more"},
		{"--ratios 1,0", "above 0"},
		{"--ratios x", "ratios"},
		{"--report=", "name of a file"},
	} {
		r := pinion(t, append([]string{"bench", "tier"}, strings.Fields(c.args)...)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, c.say) || r.stdout != "" {
			t.Errorf("%s: exit code %d, want %q\n%s%s", c.args, r.code, c.say, r.stdout, r.stderr)
		}
	}
}

func TestTierOutput(t *testing.T) {
	row := func(by string, ratio float64, filled, written int64) tierbench.Row {
		return tierbench.Row{Access: "sequential", Write: written > 0, Ratio: ratio, By: by, Arrays: 64, Uses: 64, Bytes: 4e9,
			Seconds: 0.1, Filled: filled, Written: written, Least: 1e9, LRU: 2e9}
	}
	out := newTierOutput(provenance.Record{}, device.Info{ID: "cuda:0", Name: "GPU"}, time.Second,
		tierbench.Options{Budget: 4 << 30, ArrayBytes: 64 << 20},
		&tierbench.Report{LinkH2D: 50e9, LinkD2H: 40e9, Rows: []tierbench.Row{row(tierbench.Store, 1, 0, 0), row(tierbench.CopyAll, 2, 4e9, 4e9)}})
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
