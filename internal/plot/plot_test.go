package plot

import (
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/units"
)

func sample() *Plot {
	p := &Plot{ID: "x", Title: "a < b", YName: "GB/s", XName: "size", Label: units.Bytes, Short: units.Bytes, Limit: 30, LimitText: "the link",
		Value: units.Digits, Tick: units.Digits, Log: true}
	for i, id := range []string{"one", "two"} {
		l := Line{Series: Series{ID: id, Name: "line " + id, Mark: []string{"circle", "cross"}[i]}}
		for x := int64(1); x <= 8; x *= 2 {
			y := float64(x) * float64(i+1)
			l.Points = append(l.Points, Point{X: x << 10, Y: y, Low: y, High: 1.1 * y})
		}
		p.Add(l)
	}
	p.Add(Line{Series: Series{ID: "none"}})
	return p
}

// A file is well-formed, holds its style, and asks for nothing else.
func TestFile(t *testing.T) {
	text := sample().File(640, 320, map[string]Colour{"one": {"#010203", "#040506"}, "two": {"#070809", "#0a0b0c"}})
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	for _, want := range []string{"a &lt; b", "the link", "line one", "line two", "#010203", "#0a0b0c", "prefers-color-scheme", "1 KiB", "8 KiB",
		"GB/s over size, 1 KiB to 8 KiB."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "http://www.w3.org/2000/svg") && strings.Count(text, "http") != 1 || strings.Contains(text, "p-none") || strings.Contains(text, `class="hit"`) {
		t.Error(text)
	}
}

// Without points there is nothing to draw.
func TestEmpty(t *testing.T) {
	p := Plot{Title: "none"}
	if p.File(640, 320, nil) != "" || p.Draw(640, 320) != "" {
		t.Error("an empty plot was drawn")
	}
}

// Values of less than a decade have ticks to read them by, too.
func TestTicks(t *testing.T) {
	for high := 1.2; high < 1e5; high *= 1.3 {
		for _, low := range []float64{1, 1.6, 2.1, 4.2, 6} {
			f := frame{Plot: &Plot{Log: true}, minY: math.Log10(low) - 0.06, maxY: math.Log10(low*high) + 0.06}
			if n := len(f.yTicks()); n < 2 && high > 1.7 || n > 9 {
				t.Errorf("%d ticks from %g to %g", n, low, low*high)
			}
		}
	}
}

// In a page, a plot shows its values under the pointer.
func TestDraw(t *testing.T) {
	text := string(sample().Draw(800, 360))
	if strings.Count(text, `class="hit"`) != 2*4 || strings.Count(text, "<svg") != 2 || !strings.Contains(text, "x-n") {
		t.Error(text)
	}
}
