package curve

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	const want = `     8.0 │•
         │ •
         │  •
         │   •
         │    •
         │     •
         │      •
     1.0 │       ••
         └─────────
          step 11 19
`
	if got := Text([]float64{8, 7, 6, 5, 4, 3, 2, 1, 1}, 11, 40); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// Means of steps, where there are more of them than columns.
	text := Text([]float64{4, 2, 3, 3, 1, 1, 0, 2}, 1, 14)
	if lines := strings.Split(text, "\n"); len([]rune(lines[0])) != 12 || !strings.HasPrefix(lines[0], "    3.00 │••") || !strings.HasSuffix(lines[rows-1], "│  ••") {
		t.Errorf("got\n%s", text)
	}
	if Text([]float64{1}, 1, 40) != "" || Text([]float64{1, 2, 3}, 1, 8) != "" {
		t.Error("there is a curve where there is nothing to draw, or no room")
	}
	if !strings.Contains(Text([]float64{2, 2, 2}, 1, 40), "•••") {
		t.Error("a loss that does not change is no line")
	}
}

func TestSVG(t *testing.T) {
	for _, losses := range [][]float64{{1}, {2, 2}, {3, 1, 2}} {
		svg := SVG("GPT <on> book", losses, 5)
		if !strings.Contains(svg, "GPT &lt;on&gt; book") || !strings.Contains(svg, `class="loss"`) || strings.Contains(svg, "NaN") {
			t.Errorf("%v: %s", losses, svg)
		}
	}
	// Each step is named once, and each loss by another number.
	svg := SVG("few", []float64{5.504, 5.502, 5.501}, 5)
	for _, want := range []string{">5<", ">6<", ">7<", ">5.50400<", ">5.50325<", ">5.50250<", ">5.50175<", ">5.50100<"} {
		if n := strings.Count(svg, want); n != 1 {
			t.Errorf("%s is there %d times in %s", want, n, svg)
		}
	}
	if svg := SVG("much", []float64{3e12, 1e12}, 1); !strings.Contains(svg, ">3e+12<") {
		t.Errorf("a loss of 3e12: %s", svg)
	}
}
