package plot

import (
	"html/template"
	"strings"
)

// Bars is a figure of bars, one below the other.
type Bars struct {
	ID, Title string
	Rows      []Bar
}

// Bar is a value with its spread. All are finite, none is negative; a spread
// without extent is not drawn.
type Bar struct {
	Name, Text       string
	Value, Low, High float64
	Other            bool // drawn so that the others stand out
}

// Draw makes the figure for wide screens and for phones.
func (b *Bars) Draw() template.HTML {
	var longest float64
	var about strings.Builder
	for _, r := range b.Rows {
		longest = max(longest, r.Value, r.High)
		about.WriteString(r.Name + ": " + r.Text + ". ")
	}
	if longest <= 0 {
		return ""
	}
	draw := func(id, class string, w float64) template.HTML {
		const row, bar = 58, 22
		return Figure(id, class, b.Title, about.String(), w, float64(len(b.Rows))*row, func(c *Canvas) {
			full := w - 90 // room for the value behind the longest bar
			for i, r := range b.Rows {
				y := float64(i) * row
				c.Text(0, y+15, "label", "start", r.Name)
				fill := "bar"
				if r.Other {
					fill = "bar other"
				}
				value, low, high := full*r.Value/longest, full*r.Low/longest, full*r.High/longest
				c.Rect(0, y+23, max(value, 1), bar, 3, fill)
				if high > low {
					c.Line(low, y+23+bar/2, high, y+23+bar/2, "whisker")
					c.Line(low, y+29, low, y+39, "whisker")
					c.Line(high, y+29, high, y+39, "whisker")
				}
				c.Text(max(value, high)+10, y+23+bar/2+5, "bar-value", "start", r.Text)
			}
		})
	}
	return draw(b.ID+"-w", "plot wide", 800) + draw(b.ID+"-n", "plot narrow", 320)
}
