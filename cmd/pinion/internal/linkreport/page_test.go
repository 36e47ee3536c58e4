package linkreport

import (
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page/pagetest"
	"github.com/pinion-gpu/pinion/device"
)

func TestFullPage(t *testing.T) {
	r := full(t)
	text := render(t, r)
	pagetest.Check(t, text)
	for _, want := range []string{
		"NVIDIA H200", "PCIe 5.0 x16", "CUDA 13.0", "Invented CPU 9000, 16 CPUs", "commit d796587bbb70", "2026-11-20T23:34:04Z",
		"32 GT/s × 16 lanes × 128/130 / 8 × 256/(256", "256 bytes are assumed", "limit of the link: 58.4 GB/s", "limit of the link: 57.6 GB/s",
		"Rate by copy size", "Latency of small copies", "The cost of pinning", "The numbers", "What to do",
		">55.3<", ">101<", ">46.7<", ">519<", ">224<", "pinion bench --report",
	} {
		if !contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := strings.Count(text, "<svg class=\"plot"); n != 10 {
		t.Errorf("%d figures, want 5 in two widths", n)
	}
	if n := strings.Count(text, `<div class="tile">`); n != 8 {
		t.Errorf("%d tiles, want 8", n)
	}
	r.MaxPayload = 512
	if text := render(t, r); strings.Contains(text, "assumed") || !contains(text, "512/(512") {
		t.Error("a payload that is known is said to be assumed")
	}
}

// contains looks for text that the template may have escaped.
func contains(page, text string) bool {
	return strings.Contains(page, text) || strings.Contains(page, strings.ReplaceAll(text, "+", "&#43;"))
}

func TestHostPage(t *testing.T) {
	text := render(t, hostOnly())
	pagetest.Check(t, text)
	for _, want := range []string{"host memory", "shares the host", "no link between them", "1 CPU", "the limit of locked memory is 8 MiB", "plain copy"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, not := range []string{"limit of the link:", "GT/s", "The cost of pinning", "Pinned memory</h2>", "the driver"} {
		if strings.Contains(text, not) {
			t.Errorf("the page has %q", not)
		}
	}
}

// A device with a link of another kind has no limit line, and says so.
func TestUnknownLink(t *testing.T) {
	for _, link := range []device.Link{{}, {Kind: "NVLink-C2C", MaxGen: 1, MaxWidth: 1}, {Kind: "PCIe", MaxGen: 9, MaxWidth: 16}} {
		r := full(t)
		r.Device.Link = link
		text := render(t, r)
		pagetest.Check(t, text)
		if strings.Contains(text, "limit of the link:") || !strings.Contains(text, "unknown, so the plots have no limit line") {
			t.Errorf("%+v: a limit", link)
		}
	}
}

// Whatever is missing, the page is one.
func TestPartialPages(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	for name, cut := range map[string]func(*Report){
		"nothing":      func(r *Report) { *r = Report{} },
		"no curves":    func(r *Report) { r.Bench.Curves, r.Bench.Choice = nil, nil },
		"no bulk":      func(r *Report) { r.Bench.Bulk = nil },
		"no times":     func(r *Report) { r.Bench.Small, r.Bench.Pin, r.Opened = nil, nil, 0 },
		"no pinned":    func(r *Report) { drop(r, "pinned") },
		"no pageable":  func(r *Report) { drop(r, "pageable") },
		"no chosen":    func(r *Report) { drop(r, "chosen") },
		"one size":     func(r *Report) { keep(r, 1) },
		"two sizes":    func(r *Report) { keep(r, 2) },
		"skipped":      func(r *Report) { r.Bench.Skipped = []linkbench.Skipped{{Path: "mapped"}} },
		"equal points": func(r *Report) { flatten(r) },
	} {
		t.Run(name, func(t *testing.T) {
			r := full(t)
			cut(r)
			pagetest.Check(t, render(t, r))
		})
	}
}

func drop(r *Report, path string) {
	r.Bench.Bulk = slices.DeleteFunc(r.Bench.Bulk, func(b linkbench.Bulk) bool { return b.Path == path })
	r.Bench.Curves = slices.DeleteFunc(r.Bench.Curves, func(c linkbench.Curve) bool { return c.Path == path })
}

func keep(r *Report, sizes int) {
	for i := range r.Bench.Curves {
		r.Bench.Curves[i].Points = r.Bench.Curves[i].Points[:sizes]
	}
}

func flatten(r *Report) {
	for _, c := range r.Bench.Curves {
		for i := range c.Points {
			c.Points[i].Median, c.Points[i].Least, c.Points[i].Most = time.Second, time.Second, time.Second
		}
	}
}

// Figures that cannot be stay out of the page.
func TestImpossibleFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 1e-300} {
		r := full(t)
		d := time.Duration(0)
		if v < 0 {
			d = math.MinInt64
		}
		for i := range r.Bench.Bulk {
			b := &r.Bench.Bulk[i]
			b.Median, b.Least, b.Most = v, v, v
		}
		for i := range r.Bench.Choice {
			c := &r.Bench.Choice[i]
			c.Ratio, c.Chosen, c.Best = v, d, d
		}
		for _, rows := range [][]linkbench.Timing{r.Bench.Small, r.Bench.Pin} {
			for i := range rows {
				rows[i].Median, rows[i].Least, rows[i].Most = d, d, d
			}
		}
		for _, c := range r.Bench.Curves {
			for i := range c.Points {
				if i%3 == 0 {
					c.Points[i].Median, c.Points[i].Least = d, d
				}
				if i%5 == 0 {
					c.Points[i].Bytes = int64(d)
				}
			}
		}
		r.Opened, r.CPUs, r.MaxPayload = d, -1, -1
		pagetest.Check(t, render(t, r))
	}
}

// Strings of a machine are text, whatever they look like.
func TestHostileStrings(t *testing.T) {
	const evil = `"><script>alert(1)</script><!-- ' </title></style></svg> {{.}} ]]> javascript:x`
	r := full(t)
	r.MeasuredAt, r.Commit, r.Platform, r.CPU = evil, evil, evil, evil
	r.Device.ID, r.Device.Name, r.Device.DriverVersion, r.Device.Link.Kind = evil, evil, evil, evil
	for i := range r.Bench.Bulk {
		if i > 1 {
			r.Bench.Bulk[i].Path, r.Bench.Bulk[i].Direction = evil, evil
		}
	}
	for i := range r.Bench.Small {
		r.Bench.Small[i].What = evil
	}
	for i := range r.Bench.Pin {
		r.Bench.Pin[i].What = evil
	}
	r.Bench.Curves[0].Path, r.Bench.Curves[1].Direction = evil, evil
	r.Bench.Choice[0].BestPath, r.Bench.Choice[1].Direction = evil, evil
	r.Bench.Skipped = []linkbench.Skipped{{Path: evil, Why: errors.New(evil)}}
	text := render(t, r)
	pagetest.Check(t, text)
	if strings.Contains(text, "<script") || strings.Contains(text, "</title></style>") || strings.Contains(text, "<!--") {
		t.Error("a string became markup")
	}
	if !strings.Contains(text, "&lt;script&gt;alert(1)") {
		t.Error("the strings are not shown at all")
	}
}

func TestRenderError(t *testing.T) {
	r, w := io.Pipe()
	broken := errors.New("broken")
	r.CloseWithError(broken)
	if err := Render(w, full(t)); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}

func TestColours(t *testing.T) {
	pagetest.Colours(t, string(page.Style(styleText)), new(Report).styles())
}
