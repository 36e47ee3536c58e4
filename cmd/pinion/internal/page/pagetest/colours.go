package pagetest

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/plot"
)

// Colours checks the colours of a style sheet, in both themes, and the marks of
// the series of its plots.
func Colours(t *testing.T, css string, series []plot.Series) {
	t.Helper()
	for name, c := range themes(css) {
		if len(c) < len(series)+5 {
			t.Fatalf("%s: %d colours", name, len(c))
		}
		checkContrast(t, name, c, series)
		checkBlindness(t, name, c, series)
	}
	checkMarks(t, css, series)
}

// themes reads the colours of the style sheet: light, and dark over light.
func themes(css string) map[string]map[string][3]float64 {
	light, dark := map[string][3]float64{}, map[string][3]float64{}
	colour := regexp.MustCompile(`--(\w+): #([0-9a-f]{6});`)
	block := regexp.MustCompile(`(?s)(@media [^{]*\{\s*)?:root \{(.*?)\}`)
	for _, of := range block.FindAllStringSubmatch(css, -1) {
		for _, m := range colour.FindAllStringSubmatch(of[2], -1) {
			var c [3]float64
			for i := range c {
				v, _ := strconv.ParseUint(m[2][2*i:2*i+2], 16, 8)
				c[i] = linear(float64(v) / 255)
			}
			switch {
			case of[1] == "":
				light[m[1]], dark[m[1]] = c, c
			case strings.Contains(of[1], "dark"):
				dark[m[1]] = c
			}
		}
	}
	return map[string]map[string][3]float64{"light": light, "dark": dark}
}

func linear(v float64) float64 {
	if v <= 0.04045 {
		return v / 12.92
	}
	return math.Pow((v+0.055)/1.055, 2.4)
}

func luminance(c [3]float64) float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

// contrast is that of WCAG 2.
func contrast(a, b [3]float64) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// checkContrast: text and lines stand out from what is behind them.
func checkContrast(t *testing.T, theme string, c map[string][3]float64, series []plot.Series) {
	t.Helper()
	for _, behind := range []string{"page", "card"} {
		for _, text := range []string{"ink", "soft", "accent"} {
			if got := contrast(c[text], c[behind]); got < 4.5 {
				t.Errorf("%s: %s on %s has a contrast of %.1f", theme, text, behind, got)
			}
		}
	}
	for _, s := range series {
		if got := contrast(c[s.ID], c["card"]); got < 3 {
			t.Errorf("%s: the line of %s has a contrast of %.1f", theme, s.ID, got)
		}
	}
}

// checkBlindness: no two lines look alike to people with any of the three kinds
// of colour blindness, as G. M. Machado and others simulate them ("A
// physiologically-based model for simulation of color vision deficiency", 2009).
func checkBlindness(t *testing.T, theme string, c map[string][3]float64, series []plot.Series) {
	t.Helper()
	const apart = 15 // CIE76; about 2 can just be told apart
	for kind, m := range map[string][3][3]float64{
		"none":         {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
		"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
		"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
		"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
	} {
		for i, a := range series {
			for _, b := range series[:i] {
				x, y := lab(seen(c[a.ID], m)), lab(seen(c[b.ID], m))
				if d := math.Hypot(math.Hypot(x[0]-y[0], x[1]-y[1]), x[2]-y[2]); d < apart {
					t.Errorf("%s, %s: %s and %s are %.0f apart", theme, kind, a.ID, b.ID, d)
				}
			}
		}
	}
}

func seen(c [3]float64, m [3][3]float64) (out [3]float64) {
	for i := range out {
		out[i] = min(1, max(0, m[i][0]*c[0]+m[i][1]*c[1]+m[i][2]*c[2]))
	}
	return out
}

func lab(c [3]float64) [3]float64 {
	f := func(v float64) float64 {
		if v > 0.008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16./116
	}
	x := f((0.4124*c[0] + 0.3576*c[1] + 0.1805*c[2]) / 0.95047)
	y := f(0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2])
	z := f((0.0193*c[0] + 0.1192*c[1] + 0.9505*c[2]) / 1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// checkMarks: lines differ in more than colour.
func checkMarks(t *testing.T, css string, series []plot.Series) {
	t.Helper()
	marks := map[string]string{}
	for _, s := range series {
		if other, taken := marks[s.Mark]; taken {
			t.Errorf("%s and %s have the same mark", s.ID, other)
		}
		marks[s.Mark] = s.ID
		if !strings.Contains(css, ".p-"+s.ID+" {") {
			t.Errorf("no style for %s", s.ID)
		}
	}
}
