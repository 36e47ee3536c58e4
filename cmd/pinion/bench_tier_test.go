package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestBenchTier(t *testing.T) {
	args := []string{"bench", "tier", "--device", "host", "--budget", "4MiB", "--array", "256KiB", "--seconds", "0.001"}
	r := pinion(t, args...)
	for _, want := range []string{"a budget of 4 MiB, arrays of 256 KiB", "sequential, written", "random", "zipf", "announced", "copy anew", "0.5x", "4x", "0 failures", "layers", "Not available: managed"} {
		if r.code != exitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("exit code %d, %q is missing in\n%s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	html := filepath.Join(t.TempDir(), "tier.html")
	args = append(args, "--report", html)
	doc := document(t, []string{"device", "budget_bytes", "array_bytes", "h2d_gb_per_s", "d2h_gb_per_s", "rows", "pressure", "not_available"}, append(args, "--json")...)
	if text := testkit.ReadFile(t, html); doc["report_file"] != html || !strings.Contains(text, "</html>") {
		t.Errorf("%v, a page of %d bytes", doc["report_file"], len(text))
	}
	rows := doc["rows"].([]any)
	if len(rows) != 5*(4+2+3+3) {
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

// Only what was asked for is measured.
func TestBenchTierAccess(t *testing.T) {
	doc := document(t, nil, "bench", "tier", "--device", "host", "--budget", "1MiB", "--seconds", "0.001", "--ratios", "2", "--access", "zipf", "--json")
	rows := doc["rows"].([]any)
	for _, x := range rows {
		if row := x.(map[string]any); row["access"] != "zipf" || row["working_set_ratio"] != 2.0 {
			t.Errorf("%v", row)
		}
	}
	if len(rows) != 3 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestBenchTierUsage(t *testing.T) {
	for _, c := range []struct{ args, say string }{
		{"--seconds 0", "above 0"},
		{"--budget 1MiB --array 512KiB", "a quarter of the budget"},
		{"--budget 0", "must be a size"},
		{"--budget 8KiB", "at least 16 KiB"},
		{"--array 1KiB", "at least 4 KiB"},
		{"more", "more"},
		{"--ratios 1,0", `must be above 0 and at most 64, which "0" is not`},
		{"--ratios x", `--ratios is "x", but must be above 0 and at most 64`},
		{"--access zipf,all", `must be sequential, random or zipf, which "all" is not`},
		{"--report=", "name of a file"},
	} {
		r := pinion(t, append([]string{"bench", "tier"}, strings.Fields(c.args)...)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, c.say) || r.stdout != "" {
			t.Errorf("%s: exit code %d, want %q\n%s%s", c.args, r.code, c.say, r.stdout, r.stderr)
		}
	}
}

// TestBenchTierRoom: what there is no room for is refused before anything is
// measured.
func TestBenchTierRoom(t *testing.T) {
	for _, c := range []struct{ args, say string }{
		{"--device host:16MiB --budget 1GiB", "needs 1.06 GiB of device memory, of which 16 MiB are free"},
		{"--device host:4TiB --budget 1TiB", "not enough host memory: the run needs"},
		{"--device host --budget 4MiB --ratios 2 --folder /nonexistent/folder", "/nonexistent/folder"},
	} {
		r := pinion(t, append([]string{"bench", "tier"}, strings.Fields(c.args)...)...)
		if r.code != exitFailed || !strings.Contains(r.stderr, c.say) || r.stdout != "" || strings.Contains(r.stderr, "sequential") {
			t.Errorf("%s: exit code %d, want %q\n%s%s", c.args, r.code, c.say, r.stdout, r.stderr)
		}
	}
}
