package tunereport

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page/pagetest"
	"github.com/pinion-gpu/pinion/tune"
)

// full is a report with everything in it, invented.
func full() *Report {
	r := &tune.Result{
		PerSecond: 6012, DeviceWait: 0.004, Fed: true, Settled: true, StepSeconds: 0.01,
		Best:   tune.Setting{Workers: 8, Batch: 64, Prefetch: 2, Pin: true},
		Memory: tune.Memory{PinnedBytes: 28901376, HostBytes: 28901376, DeviceBytes: 1 << 28},
		Limit:  tune.Limit{Name: tune.LimitDevice, Busy: 0.996},
		Stages: []tune.StageLoad{
			{Name: "decode", Where: "worker", Seconds: 1.2e-3, Alone: 1e-3, Most: 6667, Busy: 0.9},
			{Name: "h2d", Where: "device", Seconds: 3e-6, Alone: 3e-6, Most: 333333, Busy: 0.018, GBPerS: 50.2},
			{Name: "overhead", Where: "worker"},
		},
		GridSize: 56, Trials: 80, Seconds: 29.7, At: time.Date(2000, 1, 2, 3, 4, 5, 0, time.UTC),
		Grid: &tune.Grid{Best: tune.Setting{Workers: 16, Batch: 64, Prefetch: 4, Pin: true}, PerSecond: 6100, Choice: 6000, Ratio: 0.984, Rounds: 5, LastRounds: 9, Settings: 56},
	}
	for _, pin := range []bool{true, false} {
		for _, w := range []int{1, 2, 4, 8, 16} {
			v := 6100 * (1 - math.Exp(-float64(w)/4))
			row := tune.Row{Setting: tune.Setting{Workers: w, Batch: 64, Prefetch: 2, Pin: pin}, Trials: 3,
				PerSecond: v, Least: 0.9 * v, Most: 1.1 * v, Predicted: 1.02 * v, DeviceWait: 1 - v/6100}
			if w == 16 && pin {
				row = tune.Row{Setting: row.Setting, Refused: "does not fit: 9 bytes of pinned memory asked, 7 free"}
			}
			r.Settings = append(r.Settings, row)
		}
	}
	return &Report{Dataset: "/data/photos", Samples: "1024 samples of 224x224x3 u8", Device: "Invented GPU", Platform: "linux/amd64", CPU: "Invented CPU", CPUs: 16, Commit: strings.Repeat("ab", 20), Result: r}
}

func render(t testing.TB, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Render(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPage(t *testing.T) {
	text := render(t, full())
	pagetest.Check(t, text)
	for _, want := range []string{
		"photos</h1>", "1024 samples of 224x224x3 u8", "Invented GPU", "Invented CPU, 16 CPUs", "commit abababababab<", "2000-01-02T03:04:05Z",
		"The device is the limit", ">6012<", "DataLoader(dataset, batch_size=64", "loader.Options{Batch: 64", "the choice",
		"1 %: the device counts as fed", "9 bytes of pinned memory asked, 7 free", "whole grid of 56 settings was measured afterwards, in 5 rounds", "beside the choice in 9 more", "What a sample costs", "pinion tune DATASET",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := strings.Count(text, `<svg class="plot`); n != 6 {
		t.Errorf("%d figures, want 3 in two widths", n)
	}
}

// Staging is told where it is the choice, and so is a limit that nothing is.
func TestStagedPage(t *testing.T) {
	r := full()
	r.Result.Best = tune.Setting{Workers: 8, Batch: 64, Prefetch: 2, Copiers: 8, ChunkBytes: 2 << 20}
	r.Result.PinnedBytes, r.Result.Unread = 64<<20, 7
	r.Result.Limit = tune.Limit{Name: tune.LimitLatency, Busy: 0.31}
	for i := range r.Result.Settings {
		if s := &r.Result.Settings[i]; !s.Pin {
			s.Copiers, s.ChunkBytes = 8, 2<<20
		}
	}
	text := render(t, r)
	pagetest.Check(t, text)
	for _, want := range []string{
		"8 workers, batch 64, prefetch 2, pageable, 8 copiers, chunks of 2 MiB", "Copiers: 8, ChunkBytes: 2 &lt;&lt; 20", "the choice",
		"pageable, and 64 MiB pinned, for 8 copiers with chunks of 2 MiB", "nothing is busier than 31", "7 samples could not be read",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// Whatever is missing, the page is one; and figures that cannot be stay out.
func TestPartialPages(t *testing.T) {
	for name, change := range map[string]func(*tune.Result){
		"no step":     func(r *tune.Result) { r.StepSeconds, r.Fed = 0, false },
		"no settings": func(r *tune.Result) { r.Settings = nil },
		"no stages":   func(r *tune.Result) { r.Stages = nil },
		"one setting": func(r *tune.Result) { r.Settings = r.Settings[:1] },
		"nothing":     func(r *tune.Result) { *r = tune.Result{} },
		"no numbers": func(r *tune.Result) {
			for i := range r.Settings {
				s := &r.Settings[i]
				s.PerSecond, s.Least, s.Most, s.Predicted, s.DeviceWait = math.Inf(1), 0, -1, math.Inf(1), 7
			}
			r.Stages[0].Seconds = math.Inf(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := full()
			change(r.Result)
			text := render(t, r)
			if name == "no numbers" { // the sentences are the tuner's
				text = strings.ReplaceAll(text, "Inf", "")
			}
			pagetest.Check(t, text)
		})
	}
}

// Names of files and machines are text, whatever they look like.
func TestHostileStrings(t *testing.T) {
	const evil = `"><script>alert(1)</script><!-- ' </title></style></svg> {{.}} ]]> javascript:x`
	r := full()
	r.Dataset, r.Samples, r.Device, r.Platform, r.CPU, r.Commit = evil, evil, evil, evil, evil, evil
	for i := range r.Result.Settings {
		r.Result.Settings[i].Decode = evil
	}
	r.Result.Best.Decode, r.Result.Stages[0].Name, r.Result.Limit.Name, r.Result.Settings[4].Refused = evil, evil, evil, evil
	text := render(t, r)
	pagetest.Check(t, text)
	if strings.Contains(text, "<script") || strings.Contains(text, "<!--") {
		t.Error("a string became markup")
	}
}

func TestRenderError(t *testing.T) {
	r, w := io.Pipe()
	broken := errors.New("broken")
	r.CloseWithError(broken)
	if err := Render(w, full()); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}

func TestColours(t *testing.T) { pagetest.Colours(t, string(page.Style(styleText)), series) }

func TestFormat(t *testing.T) {
	for want, got := range map[string]string{
		"9999": short(9999), "12.3k": short(12345), "2210k": short(2210361), "12.3M": short(12345678), "0.50": short(0.5), "–": short(0),
		"500": tick(500), "4k": tick(4000), "2.5M": tick(2.5e6), "0": tick(0),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The headline's rate is a point of the chart, also where another setting with as
// many workers is faster.
func TestHeadlineIsOnTheChart(t *testing.T) {
	r := full()
	best := r.Result.Best
	for i, row := range r.Result.Settings {
		if row.Setting == best {
			r.Result.Settings[i].Score = 4321
			other := row
			other.Prefetch, other.Score = 99, 5678
			r.Result.Settings = append(r.Result.Settings, other)
		}
	}
	r.Result.PerSecond = 4321
	graphs, _ := r.plots()
	if svg := string(graphs[0].SVG); !strings.Contains(svg, "4321/s") || strings.Contains(svg, "5678/s") {
		t.Errorf("the chart does not show the rate of the choice:\n%s", svg)
	}
}
