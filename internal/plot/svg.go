package plot

import (
	"fmt"
	"html"
	"html/template"
	"strconv"
	"strings"
)

// Canvas collects the elements of one SVG. Text is escaped here, and every
// number goes through n.
type Canvas struct{ b strings.Builder }

// Figure is an SVG with a name and a description for those who cannot see it.
// id must be its own in the page.
func Figure(id, class, title, about string, w, h float64, draw func(*Canvas)) template.HTML {
	var c Canvas
	c.Add(`<svg class="%s" role="img" aria-labelledby="%s-t %s-d" viewBox="0 0 %s %s">`, class, id, id, n(w), n(h))
	c.Add(`<title id="%s-t">%s</title><desc id="%s-d">%s</desc>`, id, html.EscapeString(title), id, html.EscapeString(about))
	draw(&c)
	c.Add(`</svg>`)
	return template.HTML(c.b.String())
}

// Add adds an element as it is.
func (c *Canvas) Add(format string, args ...any) { fmt.Fprintf(&c.b, format, args...) }

// Text adds a line of text.
func (c *Canvas) Text(x, y float64, class, anchor, text string) {
	c.Add(`<text x="%s" y="%s" class="%s" text-anchor="%s">%s</text>`, n(x), n(y), class, anchor, html.EscapeString(text))
}

// Line adds a straight line.
func (c *Canvas) Line(x1, y1, x2, y2 float64, class string) {
	c.Add(`<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`, n(x1), n(y1), n(x2), n(y2), class)
}

// Rect adds a rectangle with round corners.
func (c *Canvas) Rect(x, y, w, h, round float64, class string) {
	c.Add(`<rect x="%s" y="%s" width="%s" height="%s" rx="%s" class="%s"/>`, n(x), n(y), n(w), n(h), n(round), class)
}

// Polyline is the d of a path through points.
func Polyline(points [][2]float64) string {
	var b strings.Builder
	for i, p := range points {
		command := byte('L')
		if i == 0 {
			command = 'M'
		}
		b.WriteByte(command)
		b.WriteString(n(p[0]) + " " + n(p[1]))
	}
	return b.String()
}

// Marker is the shape that tells a path apart without colour; "" is none.
func (c *Canvas) Marker(shape string, x, y, r float64, class string) {
	var d string
	switch shape {
	case "":
		return
	case "circle":
		c.Add(`<circle cx="%s" cy="%s" r="%s" class="%s"/>`, n(x), n(y), n(r), class)
		return
	case "square":
		d = Polyline([][2]float64{{x - r, y - r}, {x + r, y - r}, {x + r, y + r}, {x - r, y + r}}) + "Z"
	case "triangle":
		d = Polyline([][2]float64{{x, y - 1.2*r}, {x + 1.2*r, y + r}, {x - 1.2*r, y + r}}) + "Z"
	case "diamond":
		d = Polyline([][2]float64{{x, y - 1.5*r}, {x + 1.5*r, y}, {x, y + 1.5*r}, {x - 1.5*r, y}}) + "Z"
	default:
		d = Polyline([][2]float64{{x - r, y - r}, {x + r, y + r}}) + Polyline([][2]float64{{x - r, y + r}, {x + r, y - r}})
		class += " open"
	}
	c.Add(`<path d="%s" class="%s"/>`, d, class)
}

// n prints a coordinate: a tenth of a pixel is enough.
func n(v float64) string {
	text := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0")
}
