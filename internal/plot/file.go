package plot

import (
	"fmt"
	"html"
	"strings"
)

// Colour is that of a line, as #rrggbb, by the reader's setting.
type Colour struct{ Light, Dark string }

// File makes the plot as a file of its own, with the style in it, for documents
// that show it as a picture. Lines have the colours of their series' ids. It is
// empty where there are no points.
func (p *Plot) File(w, h float64, colours map[string]Colour) string {
	if len(p.sizes()) == 0 {
		return ""
	}
	f := p.frame(frame{w: w, h: h, left: 52, right: 92, top: 26, bottom: 40})
	light, dark := style(p.Lines, colours)
	return File(p.Title, f.about(), w, h, light, dark, f.draw)
}

// File is a figure as a file of its own. The rules of its style sheet go behind those
// that all files have: for text, bg, grid, axis, label, limit and line; dark are those
// for readers who prefer that.
func File(title, about string, w, h float64, light, dark string, draw func(*Canvas)) string {
	var c Canvas
	c.Add(`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img" aria-labelledby="t d">`+"\n", n(w), n(h), n(w), n(h))
	c.Add("<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n<style>\n%s</style>\n", html.EscapeString(title), html.EscapeString(about),
		fileStyle+light+"@media (prefers-color-scheme: dark) {\n"+fileDark+dark+"}\n")
	c.Rect(0, 0, w, h, 0, "bg")
	draw(&c)
	c.Add("</svg>\n")
	// A line for each element, so that changes can be read.
	return strings.ReplaceAll(c.b.String(), "/><", "/>\n<")
}

const fileStyle = `text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #535c69 }
.bg { fill: #ffffff }
.grid { stroke: #e8ebef }
.axis { stroke: #535c69 }
.label, .limit-name { font-weight: 600; fill: #14181f }
.limit { stroke: #14181f; stroke-width: 1.5; stroke-dasharray: 6 5 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }
.band { opacity: .13 }
.leader { fill: none }
.open { fill: none; stroke-width: 2 }
`

const fileDark = `text { fill: #a3adba }
.bg { fill: #0d1117 }
.grid { stroke: #262d36 }
.axis { stroke: #a3adba }
.label, .limit-name { fill: #eef1f5 }
.limit { stroke: #eef1f5 }
`

// style is what lines add to the style sheet of a file.
func style(lines []Line, colours map[string]Colour) (string, string) {
	var light, dark strings.Builder
	rules := func(w *strings.Builder, id, colour string) {
		fmt.Fprintf(w, ".line.p-%[1]s, .leader.p-%[1]s, .open.p-%[1]s { stroke: %[2]s }\n.band.p-%[1]s, .mark.p-%[1]s:not(.open) { fill: %[2]s }\n", id, colour)
	}
	for _, l := range lines {
		rules(&light, l.Series.ID, colours[l.Series.ID].Light)
		rules(&dark, l.Series.ID, colours[l.Series.ID].Dark)
	}
	return light.String(), dark.String()
}
