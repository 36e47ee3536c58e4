package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestTargets: a run is held against every target, also those that it did not
// measure.
func TestTargets(t *testing.T) {
	r, err := loadRun(filepath.Join(sample, "bench/results/2000-01-03-laptop"))
	testkit.OK(t, err)
	var w strings.Builder
	r.printTargets(&w)
	for _, want := range []string{
		"checkpoint from the page cache at least 46.0 GB/s 2.51 GB/s no",
		"a pool with arrays of twice its size 0 failures 0 failures yes",
		"random-1000: driver calls at most 2,000 216 yes",
		"first alloc of 1 GiB at most 1.00 ms not measured",
	} {
		if !strings.Contains(strings.Join(strings.Fields(w.String()), " "), want) {
			t.Errorf("%q is missing in\n%s", want, &w)
		}
	}
	if lines := strings.Count(w.String(), "\n"); lines != len(targets())+1 {
		t.Errorf("%d lines for %d targets", lines, len(targets()))
	}
}

// TestReached: bounds are reached from the right side.
func TestReached(t *testing.T) {
	least, most, none := target{wanted: 2, text: ratio}, target{wanted: 2, atMost: true, text: ratio}, target{atMost: true, text: failures}
	for _, c := range []struct {
		t     target
		v     float64
		want  bool
		bound string
	}{
		{least, 2, true, "at least 2.000"}, {least, 1.9, false, "at least 2.000"}, {least, 3, true, "at least 2.000"},
		{most, 2, true, "at most 2.000"}, {most, 2.1, false, "at most 2.000"}, {none, 0, true, "0 failures"}, {none, 1, false, "0 failures"},
	} {
		if got := c.t.reached(c.v); got != c.want || c.t.bound() != c.bound {
			t.Errorf("%v of %s: %t", c.v, c.t.bound(), got)
		}
	}
}

// TestTraced: what a recording costs is held against its target, and shown.
func TestTraced(t *testing.T) {
	r := &run{name: "a", turns: map[string][]*turnFile{}, compared: map[string][]*comparedFile{}}
	testkit.OK(t, r.add("timeline-cost", []byte(`{"commit": "abc", "what": "timeline", "device_name": "a GPU", "repeats": 9, "rows": [
		{"name": "arrays: time of a batch with --trace", "by": "Pinion", "unit": "of that without", "value": 1.011, "min": 0.95, "max": 1.06, "at_most": 1.03},
		{"name": "photos: time of a batch with --trace", "by": "Pinion", "unit": "of that without", "value": 1.05, "min": 0.99, "max": 1.1, "at_most": 1.03}]}`)))
	var w strings.Builder
	r.printTargets(&w)
	r.writeTargets(&w)
	writeCompared(&w, traced, r.compared[traced])
	said := strings.Join(strings.Fields(w.String()), " ")
	for _, want := range []string{
		"arrays: time of a batch with --trace, of that without at most 1.030 1.011 yes",
		"photos: time of a batch with --trace, of that without at most 1.030 1.050 no",
		"| arrays: time of a batch with --trace, of that without | at most 1.030 | 1.011 | yes |",
		"0.95 of that without | 1.06 of that without | at most 1.03 of that without: reached",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in\n%s", want, &w)
		}
	}
}

// A row in a unit of its own is not put together with one of the same name.
func TestUnits(t *testing.T) {
	r := &run{name: "a", turns: map[string][]*turnFile{}, compared: map[string][]*comparedFile{}}
	testkit.OK(t, r.add("ranks", []byte(`{"commit": "abc", "what": "ranks", "rows": [
		{"name": "a step", "by": "Pinion", "unit": "ms", "value": 200},
		{"name": "a step", "by": "Pinion", "unit": "of the ideal", "value": 1.1, "at_most": 1.05}]}`)))
	var w strings.Builder
	writeCompared(&w, ranked, r.compared[ranked])
	for _, want := range []string{"| a step | Pinion | 1 | 200 ms |", "| a step | Pinion | 1 | 1.10 of the ideal |", "at most 1.05 of the ideal: missed"} {
		if !strings.Contains(w.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &w)
		}
	}
}
