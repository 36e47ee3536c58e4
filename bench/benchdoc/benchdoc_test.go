package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var rewrite = flag.Bool("update", false, "write the golden files")

// The runs in testdata/root are made up: round figures that nobody takes for
// results.
const sample = "testdata/root"

// TestGolden compares both documents with those in testdata/golden.
func TestGolden(t *testing.T) {
	root := copyRoot(t)
	if err := update(root, true); err == nil {
		t.Error("-check finds nothing to do")
	}
	if err := update(root, false); err != nil {
		t.Fatal(err)
	}
	if err := update(root, true); err != nil {
		t.Errorf("-check after writing: %v", err)
	}
	for _, name := range []string{"README.md", "docs/benchmarks.md", "docs/guide/tiers.md", "docs/step.md", "docs/img/tier-sequential.svg"} {
		got := read(t, filepath.Join(root, name))
		golden := filepath.Join("testdata/golden", filepath.Base(name))
		if *rewrite {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want := read(t, golden); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestCheckWritesNothing: -check leaves the documents alone and names both.
func TestCheckWritesNothing(t *testing.T) {
	root := copyRoot(t)
	err := update(root, true)
	if err == nil || !strings.Contains(err.Error(), "README.md") || !strings.Contains(err.Error(), "benchmarks.md") {
		t.Errorf("%v, want both documents", err)
	}
	if got, want := read(t, filepath.Join(root, "README.md")), read(t, filepath.Join(sample, "README.md")); got != want {
		t.Errorf("README.md changed to\n%s", got)
	}
}

// TestNoResults: a module without results says so, and nothing else.
func TestNoResults(t *testing.T) {
	root := copyRoot(t)
	if err := os.RemoveAll(filepath.Join(root, "bench")); err != nil {
		t.Fatal(err)
	}
	if err := update(root, false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "docs/benchmarks.md", "docs/guide/tiers.md", "docs/step.md"} {
		if got := read(t, filepath.Join(root, name)); !regexp.MustCompile("No run (on a GPU )?has been recorded yet.").MatchString(got) || strings.Contains(got, "|") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

// TestHostOnly: without a run on a GPU, the README's table is of the host.
func TestHostOnly(t *testing.T) {
	root := copyRoot(t)
	for _, name := range []string{"2000-01-01-old", "2000-01-02-machine", "2000-01-04-machine"} {
		if err := os.RemoveAll(filepath.Join(root, "bench/results", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := update(root, false); err != nil {
		t.Fatal(err)
	}
	got := read(t, filepath.Join(root, "README.md"))
	if !strings.Contains(got, "| 2000-01-03-laptop |") || !strings.Contains(got, "without a GPU") || strings.Count(got, "\n|") != 3 {
		t.Errorf("README.md:\n%s", got)
	}
}

// TestComparisonsAreNoRuns: a folder that holds only a comparison of two builds
// has no section.
func TestComparisonsAreNoRuns(t *testing.T) {
	root := copyRoot(t)
	dir := filepath.Join(root, "bench/results/2000-01-09-machine/compare/new")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "moves-1.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := update(root, false); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(read(t, filepath.Join(root, "docs/benchmarks.md")), "2000-01-09-machine") {
		t.Error("docs/benchmarks.md has a section for it")
	}
}

// TestRowsNameTheirRuns: a row of the README comes from the newest run that
// measured it, even where that run has no file about the link.
func TestRowsNameTheirRuns(t *testing.T) {
	root := copyRoot(t)
	if err := update(root, false); err != nil {
		t.Fatal(err)
	}
	got := read(t, filepath.Join(root, "README.md"))
	for _, want := range []string{
		"| JPEG photos into float32 batches on the device, best setting | 17,000 images/s | 2,500 images/s |  | 2000-01-04-machine |",
		"| ordinary memory to device | 2.00 GB/s | 1.25 GB/s |  | 2000-01-02-machine |",
		"Within 5 % of the best peer: pinned memory to device.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("README.md has no %q:\n%s", want, got)
		}
	}
}

// TestBadResults: a file that is no sound result is an error that names it.
func TestBadResults(t *testing.T) {
	link := read(t, filepath.Join(sample, "bench/results/2000-01-01-old/link.json"))
	for _, c := range []struct{ name, text, want string }{
		{"no JSON", "{", "unexpected end"},
		{"wrong type", `{"bulk": 7}`, "cannot unmarshal"},
		{"unknown kind", `{"rows": []}`, "no known kind"},
		{"median below min", strings.Replace(link, `"min_gb_per_s": 1`, `"min_gb_per_s": 2`, 1), "pinned h2d: 1 is not a median between 2 and 1"},
		{"no rate", strings.Replace(link, `"gb_per_s": 1`, `"gb_per_s": 0`, 1), "pinned h2d: 0 is not"},
		{"no samples", `{"stages": [], "samples_per_s": 1, "batch_shape": [1]}`, "0 samples"},
		{"peer of what", `{"peer": "A", "what": "speed"}`, `"speed", not link, moves, loader or processes`},
		{"peer of nothing a second", `{"peer": "A", "what": "moves", "rows": [{"name": "x", "unit": "GB/s", "value": 0}]}`, "x: 0 is not"},
		{"less than nothing", `{"peer": "Pinion", "what": "moves", "commit": "1", "rows": [{"name": "x", "unit": "%", "value": -1}]}`, "x: -1 is not"},
		{"choice without a time", `{"peer": "Pinion", "what": "moves", "commit": "1", "choice": [{"bytes": 1, "direction": "h2d", "chosen_seconds": 1}]}`, "is no comparison"},
		{"choice of no direction", `{"peer": "Pinion", "what": "moves", "commit": "1", "choice": [{"bytes": 1, "chosen_seconds": 1, "best_seconds": 1}]}`, "is no comparison"},
		{"peer without unit", `{"peer": "A", "what": "link", "rows": [{"name": "x", "value": 1}]}`, `unit ""`},
		{"curve of nothing", strings.Replace(link, `"bulk"`, `"curves": [{"path": "pinned", "direction": "h2d", "bytes": 1024}], "bulk"`, 1), "pinned h2d, 1024 bytes: 0 is not"},
		{"queued in no time", `{"peer": "A", "what": "queued", "rows": [{"name": "x", "unit": "us", "value": 0}]}`, "x: 0 is not"},
		{"processes with no rate", `{"copies": [{"memory": "pageable", "direction": "h2d", "alone": {"gb_per_s": 1}, "together": {"gb_per_s": 0}}]}`, "pageable h2d, together: 0 is not"},
		{"processes of no direction", `{"copies": [{"memory": "pageable", "direction": "up", "alone": {"gb_per_s": 1}, "together": {"gb_per_s": 1}}]}`, "no direction"},
		{"memory by nobody", `{"peer": "A", "what": "hold", "rows": [{"name": "x", "unit": "ms", "value": 1}]}`, "x: by nobody"},
		{"feeding by nobody", `{"peer": "A", "what": "feeding", "rows": [{"name": "x", "unit": "ms", "value": 1}]}`, "x: by nobody"},
		{"fed nothing", `{"peer": "Pinion", "what": "feeding", "commit": "1", "rows": [{"name": "x", "by": "y", "unit": "images/s", "value": 0}]}`, "x: 0 is not"},
		{"loop in no time", `{"peer": "A", "what": "hold", "rows": [{"name": "x", "by": "y", "unit": "ms", "value": 0}]}`, "x: 0 is not"},
		{"replay of no trace", `{"allocator": "pinion", "capacity_bytes": 9, "events": 1, "peak_live_bytes": 1, "peak_reserved_bytes": 1}`, `trace "" on allocator "pinion"`},
		{"replay with less than what is live", `{"trace": "t", "allocator": "pinion", "capacity_bytes": 9, "events": 1, "peak_live_bytes": 2, "peak_reserved_bytes": 1}`, "is no replay"},
		{"peer's replay of nothing", `{"peer": "A", "what": "replay", "replays": [{"trace": "t", "allocator": "a", "capacity_bytes": 9, "peak_live_bytes": 1, "peak_reserved_bytes": 1}]}`, "is no replay"},
		{"tier without a budget", `{"pressure": {}, "array_bytes": 1, "h2d_gb_per_s": 1, "d2h_gb_per_s": 1}`, "a budget of 0 bytes"},
		{"tier in no time", `{"pressure": {}, "budget_bytes": 4, "array_bytes": 1, "h2d_gb_per_s": 1, "d2h_gb_per_s": 1, "rows": [{"access": "zipf", "by": "store", "working_set_ratio": 2, "used_bytes": 5}]}`, "zipf of 2x"},
		{"tier by nobody", `{"pressure": {}, "budget_bytes": 4, "array_bytes": 1, "h2d_gb_per_s": 1, "d2h_gb_per_s": 1, "rows": [{"access": "zipf", "working_set_ratio": 2, "used_bytes": 5, "seconds": 1, "gb_per_s": 1}]}`, `held by ""`},
		{"product in no time", `{"peer": "Pinion", "what": "outofcore", "commit": "1", "rows": [{"name": "f32", "by": "in core", "unit": "s", "value": 0}]}`, "f32: 0 is not"},
		{"peer above max", `{"peer": "A", "what": "link", "rows": [{"name": "x", "unit": "s", "value": 3, "max": 2}]}`, "x: 3 is not"},
	} {
		root := copyRoot(t)
		path := filepath.Join(root, "bench/results/2000-01-01-old/bad.json")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := update(root, false)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "bad.json") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestReplace(t *testing.T) {
	const both = "a\n" + beginMark + "old\n" + endMark + "b\n"
	got, err := replace(both, "new\n")
	if want := strings.Replace(both, "old", "new", 1); err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	for _, document := range []string{"", beginMark, endMark, endMark + beginMark, both + both, both + beginMark, both + endMark} {
		if got, err := replace(document, "new\n"); err == nil {
			t.Errorf("%q became %q", document, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		value            float64
		number, duration string
	}{
		{0, "0.00", "0.00 µs"},
		{4.2e-7, "4.2e-07", "0.42 µs"},
		{5.5e-6, "5.5e-06", "5.50 µs"},
		{999.9e-6, "0.001", "1.00 ms"},
		{0.25, "0.25", "250 ms"},
		{0.9996, "1.00", "1.00 s"},
		{9.996, "10.0", "10.0 s"},
		{53.44, "53.4", "53.4 s"},
		{99.96, "100", "100 s"},
		{999.6, "1,000", "1,000 s"},
		{12345.6, "12,346", "12,346 s"},
	} {
		if got := number(c.value); got != c.number {
			t.Errorf("number(%g) is %s, want %s", c.value, got, c.number)
		}
		if got := duration(c.value); got != c.duration {
			t.Errorf("duration(%g) is %s, want %s", c.value, got, c.duration)
		}
	}
}

// copyRoot copies the sample module to where it can be written.
func copyRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(sample)); err != nil {
		t.Fatal(err)
	}
	return root
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
