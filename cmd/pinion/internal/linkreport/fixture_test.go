package linkreport

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/device"
)

// full is a report of a GPU: the large copies are measured ones, the curves
// are invented.
func full(t testing.TB) *Report {
	t.Helper()
	text, err := os.ReadFile("testdata/link.json")
	if err != nil {
		t.Fatal(err)
	}
	type timingRow struct {
		What    string
		Seconds float64
		Min     float64 `json:"min_seconds"`
		Max     float64 `json:"max_seconds"`
	}
	var in struct {
		MeasuredAt string `json:"measured_at"`
		Commit     string
		Platform   string
		CPUs       int
		Device     string
		Name       string `json:"device_name"`
		Link       struct {
			Kind  string
			Gen   int `json:"max_generation"`
			Width int `json:"max_width"`
		}
		Size    int64 `json:"size_bytes"`
		Repeats int
		Init    float64 `json:"initialisation_seconds"`
		Bulk    []struct {
			Path, Direction string
			GB              float64 `json:"gb_per_s"`
			Min             float64 `json:"min_gb_per_s"`
			Max             float64 `json:"max_gb_per_s"`
		}
		Small []timingRow `json:"small_copies"`
		Pin   []timingRow `json:"pin_cost"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		t.Fatal(err)
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * 1e9) }
	r := &Report{
		MeasuredAt: in.MeasuredAt, Commit: in.Commit, Platform: in.Platform, CPU: "Invented CPU 9000", CPUs: in.CPUs,
		Device: device.Info{
			ID: in.Device, Name: in.Name, DriverVersion: "13.0",
			Link: device.Link{Kind: in.Link.Kind, Gen: in.Link.Gen, Width: in.Link.Width, MaxGen: in.Link.Gen, MaxWidth: in.Link.Width},
		},
		Opened: seconds(in.Init),
		Bench:  linkbench.Report{Size: in.Size, PinSize: in.Size, Repeats: in.Repeats},
	}
	for _, b := range in.Bulk {
		r.Bench.Bulk = append(r.Bench.Bulk, linkbench.Bulk{Path: b.Path, Direction: b.Direction, Median: b.GB * 1e9, Least: b.Min * 1e9, Most: b.Max * 1e9})
	}
	for _, s := range in.Small {
		r.Bench.Small = append(r.Bench.Small, linkbench.Timing{What: s.What, Median: seconds(s.Seconds), Least: seconds(s.Min), Most: seconds(s.Max)})
	}
	for _, s := range in.Pin {
		r.Bench.Pin = append(r.Bench.Pin, linkbench.Timing{What: s.What, Median: seconds(s.Seconds), Least: seconds(s.Min), Most: seconds(s.Max)})
	}
	invent(r, map[string]float64{"pageable": 8, "staged": 48, "pinned": 55.3, "mapped": 51.5})
	return r
}

// invent makes curves of a latency and those rates, in GB/s.
func invent(r *Report, rates map[string]float64) {
	latency := map[string]time.Duration{"pageable": 8400, "staged": 26000, "pinned": 7700, "mapped": 9100}
	for _, direction := range []string{"h2d", "d2h"} {
		curves := map[string]*linkbench.Curve{}
		for _, path := range []string{"pageable", "staged", "pinned", "mapped", "chosen"} {
			if _, there := rates[path]; there || path == "chosen" {
				curves[path] = &linkbench.Curve{Path: path, Direction: direction}
			}
		}
		for n := int64(1 << 10); n <= r.Bench.Size; n *= 4 {
			took := func(path string) time.Duration {
				return latency[path] + time.Duration(float64(n)/rates[path])
			}
			add := func(path string, d time.Duration) {
				if c := curves[path]; c != nil {
					c.Points = append(c.Points, linkbench.Point{Bytes: n, Median: d, Least: d - d/25, Most: d + d/9})
				}
			}
			best, name := took("pageable"), "pageable"
			if d := took("staged"); d < best {
				best, name = d, "staged"
			}
			for path := range rates {
				add(path, took(path))
			}
			chosen := best + 300
			add("chosen", chosen)
			r.Bench.Choice = append(r.Bench.Choice, linkbench.Choice{Bytes: n, Direction: direction,
				Chosen: chosen, Best: best, BestPath: name, Ratio: float64(chosen) / float64(best)})
		}
		for _, path := range []string{"pageable", "staged", "pinned", "mapped", "chosen"} {
			if c := curves[path]; c != nil {
				r.Bench.Curves = append(r.Bench.Curves, *c)
			}
		}
	}
}

// hostOnly is a report of the host backend where nothing may be pinned.
func hostOnly() *Report {
	r := &Report{
		MeasuredAt: "2000-01-02T03:04:05Z", Commit: "unknown", Platform: "linux/amd64 go1.26.0", CPUs: 1,
		Device: device.Info{ID: "host", Backend: "host", Name: "host memory", Integrated: true, NUMANode: -1},
		Opened: 40 * time.Microsecond,
		Bench: linkbench.Report{
			Size: 64 << 20, Repeats: 3,
			Bulk: []linkbench.Bulk{
				{Path: "pageable", Direction: "h2d", Median: 9e9, Least: 8e9, Most: 9.5e9},
				{Path: "pageable", Direction: "d2h", Median: 9e9, Least: 8e9, Most: 9.5e9},
			},
			Small:   []linkbench.Timing{{What: "4 KiB pageable h2d", Median: 2000, Least: 1900, Most: 2500}},
			Skipped: []linkbench.Skipped{{Path: "pinned", Why: errors.New("the limit of locked memory is 8 MiB")}},
		},
	}
	invent(r, map[string]float64{"pageable": 9, "staged": 5})
	return r
}

func render(t testing.TB, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Render(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
