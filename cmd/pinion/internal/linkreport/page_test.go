package linkreport

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/device"
)

func TestFullPage(t *testing.T) {
	r := full(t)
	text := render(t, r)
	checkPage(t, text)
	for _, want := range []string{
		"NVIDIA H200", "PCIe 5.0 x16", "CUDA 13.0", "Invented CPU 9000, 16 CPUs", "commit d796587bbb70", "2026-11-20T23:34:04Z",
		"32 GT/s × 16 lanes × 128/130 / 8 × 256/(256", "256 bytes are assumed", "limit of the link: 58.4 GB/s", "limit of the link: 57.6 GB/s",
		"Rate over the size of a copy", "Time of small copies", "The cost of pinning", "The numbers", "What follows",
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
	checkPage(t, text)
	for _, want := range []string{"host memory", "shares the host", "no limit line", "1 CPU", "the limit of locked memory is 8 MiB", "plain copy"} {
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
		checkPage(t, text)
		if strings.Contains(text, "limit of the link:") || !strings.Contains(text, "not known, so there is no limit line") {
			t.Errorf("%+v: a limit", link)
		}
	}
}

// Whatever is missing, the page is one.
func TestPartialPages(t *testing.T) {
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
			checkPage(t, render(t, r))
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
		checkPage(t, render(t, r))
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
	checkPage(t, text)
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

var (
	svgPattern    = regexp.MustCompile(`(?s)<svg.*?</svg>`)
	boxPattern    = regexp.MustCompile(`^<svg class="plot[^>]*viewBox="0 0 (\S+) (\S+)"`)
	idPattern     = regexp.MustCompile(` id="([^"]*)"`)
	labelPattern  = regexp.MustCompile(`aria-labelledby="([^"]*)"`)
	remotePattern = regexp.MustCompile(`(?i)(?:\bsrc|href|action|data)\s*=\s*["']([^"']*)|url\(|@import`)
	numberPattern = regexp.MustCompile(` (?:x|y|cx|cy|x1|x2|y1|y2|r|width|height)="([^"]*)"`)
	pathPattern   = regexp.MustCompile(` d="([^"]*)"`)
)

// checkPage looks for what no page may have: markup that does not close,
// requests to the network, numbers that are none, marks outside their figure,
// names that are not there.
func checkPage(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Errorf("the page is not well formed: %v", err)
			break
		}
	}
	for _, want := range []string{"<!doctype html>", "<title>", `<meta name="description" content="`, "</html>", "prefers-color-scheme: dark", "@media print"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	for _, m := range remotePattern.FindAllStringSubmatch(text, -1) {
		if m[1] != "https://github.com/pinion-gpu/pinion" && m[1] != "data:," {
			t.Errorf("the page asks for %q", m[0])
		}
	}
	ids := map[string]bool{}
	for _, m := range idPattern.FindAllStringSubmatch(text, -1) {
		if ids[m[1]] {
			t.Errorf("the id %q is there twice", m[1])
		}
		ids[m[1]] = true
	}
	for _, m := range labelPattern.FindAllStringSubmatch(text, -1) {
		for _, id := range strings.Fields(m[1]) {
			if !ids[id] {
				t.Errorf("a figure is named by %q, which is not there", id)
			}
		}
	}
	for _, svg := range svgPattern.FindAllString(text, -1) {
		checkFigure(t, svg)
	}
	// The words of a page are never those of a number that is none.
	for _, none := range []string{"NaN", "Inf", "%!", "ZgotmplZ"} {
		if strings.Contains(text, none) {
			t.Errorf("the page has %q: %s", none, text[max(0, strings.Index(text, none)-80):][:120])
		}
	}
}

func checkFigure(t *testing.T, svg string) {
	t.Helper()
	if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
		t.Errorf("a figure is not well formed: %v", err)
	}
	if strings.Contains(svg, "aria-hidden") {
		return // a swatch
	}
	box := boxPattern.FindStringSubmatch(svg)
	if box == nil || !strings.Contains(svg, `role="img"`) {
		t.Fatalf("not a figure: %.200s", svg)
	}
	w, _ := strconv.ParseFloat(box[1], 64)
	h, _ := strconv.ParseFloat(box[2], 64)
	inside := func(text string) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v < -1 || v > max(w, h)+1 {
			t.Errorf("%q in a figure of %g x %g", text, w, h)
		}
	}
	for _, m := range numberPattern.FindAllStringSubmatch(svg, -1) {
		inside(m[1])
	}
	for _, m := range pathPattern.FindAllStringSubmatch(svg, -1) {
		for _, v := range strings.FieldsFunc(m[1], func(r rune) bool { return strings.ContainsRune("MLZ ", r) }) {
			inside(v)
		}
	}
}
