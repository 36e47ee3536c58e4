package plot

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Plot is lines over sizes, or numbers, on a logarithmic axis.
type Plot struct {
	ID, Title string
	Lines     []Line
	Limit     float64 // a dashed line; 0 is none
	LimitText string
	Log       bool                 // the y axis
	Value     func(float64) string // of y, with its unit
	Tick      func(float64) string // of y, on the axis
	YName     string
	XName     string
	Label     func(int64) string // of x
	Short     func(int64) string // of x, on a narrow axis
}

// Line is one series of points.
type Line struct {
	Series Series
	Points []Point
}

// Series is how a line is drawn and named. Its colour is the custom property
// --line of the class "p-" and ID.
type Series struct {
	ID    string
	Name  string // short, beside the line
	About string
	Mark  string // shape of its points: "circle", "square", "triangle", "diamond", "cross"; "" is none
}

// Swatch is a piece of the line with its mark, for legends of pages.
func (s Series) Swatch() template.HTML {
	var c Canvas
	c.Add(`<svg class="swatch" aria-hidden="true" viewBox="0 0 28 14">`)
	c.Add(`<path d="M1 7L27 7" class="line p-%s"/>`, s.ID)
	c.Marker(s.Mark, 14, 7, 3.5, "mark p-"+s.ID)
	c.Add(`</svg>`)
	return template.HTML(c.b.String())
}

// Point is positive and finite in everything. A band goes from Low to High.
type Point struct {
	X            int64
	Y, Low, High float64
}

// Add adds a line that has points.
func (p *Plot) Add(l Line) {
	if len(l.Points) > 0 {
		p.Lines = append(p.Lines, l)
	}
}

// frame is a plot of one width: where things are.
type frame struct {
	*Plot
	w, h, left, right, top, bottom float64
	narrow                         bool
	minX, maxX, minY, maxY         float64
	sizes                          []int64
}

// Draw makes the plot for wide screens and for phones; the page shows one of
// them.
func (p *Plot) Draw(wide, high float64) template.HTML {
	if len(p.sizes()) == 0 {
		return ""
	}
	a := p.frame(frame{w: wide, h: high, left: 52, right: 84, top: 26, bottom: 40})
	b := p.frame(frame{w: 320, h: 290, left: 48, right: 12, top: 26, bottom: 40, narrow: true})
	return a.svg(p.ID+"-w", "plot wide") + b.svg(p.ID+"-n", "plot narrow")
}

func (p *Plot) sizes() (list []int64) {
	for _, l := range p.Lines {
		for _, q := range l.Points {
			list = append(list, q.X)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (p *Plot) frame(f frame) *frame {
	f.Plot = p
	f.sizes = p.sizes()
	f.minX, f.maxX = math.Log2(float64(f.sizes[0])), math.Log2(float64(f.sizes[len(f.sizes)-1]))
	low, high := math.Inf(1), p.Limit
	for _, l := range p.Lines {
		for _, q := range l.Points {
			low, high = min(low, q.Low), max(high, q.High)
		}
	}
	f.minY, f.maxY = 0, high*1.06
	if p.Log {
		f.minY, f.maxY = math.Log10(low)-0.06, math.Log10(high)+0.06
	}
	return &f
}

func (f *frame) x(bytes int64) float64 {
	share := 0.5 // of a single size
	if f.maxX > f.minX {
		share = (math.Log2(float64(bytes)) - f.minX) / (f.maxX - f.minX)
	}
	return f.left + share*(f.w-f.left-f.right)
}

func (f *frame) y(v float64) float64 {
	if f.Log {
		v = math.Log10(v)
	}
	return f.h - f.bottom - (v-f.minY)/(f.maxY-f.minY)*(f.h-f.top-f.bottom)
}

func (f *frame) svg(id, class string) template.HTML {
	return Figure(id, class, f.Title, f.about(), f.w, f.h, func(c *Canvas) {
		f.draw(c)
		f.columns(c)
	})
}

// draw makes what is seen of the plot.
func (f *frame) draw(c *Canvas) {
	f.axes(c)
	for _, l := range f.Lines {
		f.band(c, l)
	}
	f.limitLine(c)
	for _, l := range f.Lines {
		f.line(c, l)
	}
	if !f.narrow {
		f.labels(c)
	}
}

// about says what the lines show, for those who cannot see them.
func (f *frame) about() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s over %s, %s to %s.", f.YName, f.XName, f.Label(f.sizes[0]), f.Label(f.sizes[len(f.sizes)-1]))
	for _, l := range f.Lines {
		first, last := l.Points[0], l.Points[len(l.Points)-1]
		fmt.Fprintf(&b, " %s: from %s to %s.", l.Series.Name, f.Value(first.Y), f.Value(last.Y))
	}
	if f.Limit > 0 {
		fmt.Fprintf(&b, " %s.", f.LimitText)
	}
	return b.String()
}

func (f *frame) axes(c *Canvas) {
	for _, v := range f.yTicks() {
		c.Line(f.left, f.y(v), f.w-f.right, f.y(v), "grid")
		c.Text(f.left-8, f.y(v)+4, "tick", "end", f.Tick(v))
	}
	c.Line(f.left, f.h-f.bottom, f.w-f.right, f.h-f.bottom, "axis")
	label, gap := f.Label, 52.0
	if f.narrow {
		label, gap = f.Short, 36.0
	}
	last := math.Inf(1)
	for _, s := range slices.Backward(f.sizes) {
		if last-f.x(s) < gap {
			continue
		}
		last = f.x(s)
		c.Line(last, f.h-f.bottom, last, f.h-f.bottom+4, "axis")
		c.Text(last, f.h-f.bottom+18, "tick", "middle", label(s))
	}
	c.Text((f.left+f.w-f.right)/2, f.h-4, "name", "middle", f.XName)
	c.Text(4, 12, "name", "start", f.YName)
}

// yTicks are round numbers inside the axis.
func (f *frame) yTicks() (list []float64) {
	if f.Log {
		digits := []float64{1, 2, 5}
		switch decades := f.maxY - f.minY; {
		case decades > 2.5:
			digits = []float64{1}
		case decades < 0.8: // two of the above at most
			digits = []float64{1, 1.5, 2, 3, 4, 5, 7}
		}
		for e := math.Floor(f.minY); e <= f.maxY; e++ {
			for _, d := range digits {
				if v := d * math.Pow(10, e); math.Log10(v) >= f.minY && math.Log10(v) <= f.maxY {
					list = append(list, v)
				}
			}
		}
		return list
	}
	step := math.Pow(10, math.Floor(math.Log10(f.maxY/5)))
	for _, m := range []float64{1, 2, 5, 10} {
		if f.maxY/(m*step) <= 7 {
			step *= m
			break
		}
	}
	for i := 0; float64(i)*step <= f.maxY; i++ {
		list = append(list, float64(i)*step)
	}
	return list
}

// band is the area between the slowest and the fastest repeat.
func (f *frame) band(c *Canvas, l Line) {
	var points [][2]float64
	for _, q := range l.Points {
		points = append(points, [2]float64{f.x(q.X), f.y(q.High)})
	}
	for _, q := range slices.Backward(l.Points) {
		points = append(points, [2]float64{f.x(q.X), f.y(q.Low)})
	}
	if len(l.Points) > 1 {
		c.Add(`<path d="%sZ" class="band p-%s"/>`, Polyline(points), l.Series.ID)
	}
}

func (f *frame) line(c *Canvas, l Line) {
	var points [][2]float64
	for _, q := range l.Points {
		points = append(points, [2]float64{f.x(q.X), f.y(q.Y)})
	}
	c.Add(`<path d="%s" class="line p-%s"/>`, Polyline(points), l.Series.ID)
	for _, p := range points {
		c.Marker(l.Series.Mark, p[0], p[1], 3, "mark p-"+l.Series.ID)
	}
}

func (f *frame) limitLine(c *Canvas) {
	if f.Limit <= 0 {
		return
	}
	y := f.y(f.Limit)
	c.Line(f.left, y, f.w-f.right, y, "limit")
	c.Text(f.left+6, y-6, "limit-name", "start", f.LimitText)
}

// labels name the lines at their right ends, moved apart where they meet.
func (f *frame) labels(c *Canvas) {
	type label struct {
		Line
		at, y float64
	}
	var list []label
	for _, l := range f.Lines {
		y := f.y(l.Points[len(l.Points)-1].Y)
		list = append(list, label{l, y, y})
	}
	slices.SortStableFunc(list, func(a, b label) int { return cmp.Compare(a.at, b.at) })
	const gap = 15
	for i := 1; i < len(list); i++ {
		list[i].y = max(list[i].y, list[i-1].y+gap)
	}
	bottom := f.h - f.bottom
	for i := len(list) - 1; i >= 0; i-- {
		list[i].y = min(list[i].y, bottom)
		bottom = list[i].y - gap
	}
	for _, l := range list {
		end := f.x(l.Points[len(l.Points)-1].X)
		c.Add(`<path d="%s" class="leader p-%s"/>`, Polyline([][2]float64{{end + 5, l.at}, {end + 14, l.y}}), l.Series.ID)
		c.Text(end+18, l.y+4, "label", "start", l.Series.Name)
	}
}

// columns show the values of a size under the pointer, without a script.
func (f *frame) columns(c *Canvas) {
	for i, s := range f.sizes {
		from, to := f.left-8, f.w-f.right+8
		if i > 0 {
			from = (f.x(f.sizes[i-1]) + f.x(s)) / 2
		}
		if i < len(f.sizes)-1 {
			to = (f.x(s) + f.x(f.sizes[i+1])) / 2
		}
		// The empty title keeps the figure's own from popping up.
		c.Add(`<g class="column"><title></title>`)
		c.Rect(from, f.top, to-from, f.h-f.top-f.bottom, 0, "hit")
		c.Add(`<g class="tip">`)
		c.Line(f.x(s), f.top, f.x(s), f.h-f.bottom, "cross")
		var rows []Line
		var values []string
		for _, l := range f.Lines {
			for _, q := range l.Points {
				if q.X == s {
					rows, values = append(rows, l), append(values, f.Value(q.Y))
				}
			}
		}
		const wide, row = 170, 18
		x, y := f.x(s)+12, f.top+6
		if x+wide > f.w {
			x = f.x(s) - 12 - wide
		}
		x = max(x, 2)
		c.Rect(x, y, wide, float64(len(rows)+1)*row+10, 6, "box")
		c.Text(x+10, y+row, "tip-head", "start", f.Label(s))
		for i, l := range rows {
			at := y + float64(i+2)*row
			c.Marker(l.Series.Mark, x+14, at-4, 3, "mark p-"+l.Series.ID)
			c.Text(x+26, at, "tip-text", "start", l.Series.Name)
			c.Text(x+wide-10, at, "tip-text", "end", values[i])
		}
		c.Add(`</g></g>`)
	}
}
