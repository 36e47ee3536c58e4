package linkreport

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// plot is lines over the size of copies.
type plot struct {
	id, title string
	lines     []plotLine
	limit     float64 // a dashed line; 0 is none
	limitText string
	log       bool                 // the y axis
	value     func(float64) string // of y, with its unit
	tick      func(float64) string // of y, on the axis
	yName     string
}

// plotLine is one path, with a point at least.
type plotLine struct {
	style  style
	points []plotPoint
}

// plotPoint is positive and finite in everything.
type plotPoint struct {
	bytes        int64
	y, low, high float64
}

// frame is a plot of one width: where things are.
type frame struct {
	*plot
	w, h, left, right, top, bottom float64
	narrow                         bool
	minX, maxX, minY, maxY         float64
	sizes                          []int64
}

// draw makes the plot for wide screens and for phones; the page shows one of
// them.
func (p *plot) draw(wide, high float64) template.HTML {
	if len(p.sizes()) == 0 {
		return ""
	}
	a := p.frame(frame{w: wide, h: high, left: 52, right: 84, top: 26, bottom: 40})
	b := p.frame(frame{w: 320, h: 290, left: 40, right: 12, top: 26, bottom: 40, narrow: true})
	return a.svg(p.id+"-w", "plot wide") + b.svg(p.id+"-n", "plot narrow")
}

func (p *plot) sizes() (list []int64) {
	for _, l := range p.lines {
		for _, q := range l.points {
			list = append(list, q.bytes)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (p *plot) frame(f frame) *frame {
	f.plot = p
	f.sizes = p.sizes()
	f.minX, f.maxX = math.Log2(float64(f.sizes[0])), math.Log2(float64(f.sizes[len(f.sizes)-1]))
	low, high := math.Inf(1), p.limit
	for _, l := range p.lines {
		for _, q := range l.points {
			low, high = min(low, q.low), max(high, q.high)
		}
	}
	f.minY, f.maxY = 0, high*1.06
	if p.log {
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
	if f.log {
		v = math.Log10(v)
	}
	return f.h - f.bottom - (v-f.minY)/(f.maxY-f.minY)*(f.h-f.top-f.bottom)
}

func (f *frame) svg(id, class string) template.HTML {
	return figure(id, class, f.title, f.about(), f.w, f.h, func(c *canvas) {
		f.axes(c)
		for _, l := range f.lines {
			f.band(c, l)
		}
		f.limitLine(c)
		for _, l := range f.lines {
			f.line(c, l)
		}
		if !f.narrow {
			f.labels(c)
		}
		f.columns(c)
	})
}

// about says what the lines show, for those who cannot see them.
func (f *frame) about() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s over the size of a copy, %s to %s.", f.yName, bytesText(f.sizes[0]), bytesText(f.sizes[len(f.sizes)-1]))
	for _, l := range f.lines {
		first, last := l.points[0], l.points[len(l.points)-1]
		fmt.Fprintf(&b, " %s: from %s to %s.", l.style.name, f.value(first.y), f.value(last.y))
	}
	if f.limit > 0 {
		fmt.Fprintf(&b, " %s.", f.limitText)
	}
	return b.String()
}

func (f *frame) axes(c *canvas) {
	for _, v := range f.yTicks() {
		c.line(f.left, f.y(v), f.w-f.right, f.y(v), "grid")
		c.text(f.left-8, f.y(v)+4, "tick", "end", f.tick(v))
	}
	c.line(f.left, f.h-f.bottom, f.w-f.right, f.h-f.bottom, "axis")
	label, gap := bytesText, 52.0
	if f.narrow {
		label, gap = bytesShort, 36.0
	}
	last := math.Inf(1)
	for _, s := range slices.Backward(f.sizes) {
		if last-f.x(s) < gap {
			continue
		}
		last = f.x(s)
		c.line(last, f.h-f.bottom, last, f.h-f.bottom+4, "axis")
		c.text(last, f.h-f.bottom+18, "tick", "middle", label(s))
	}
	c.text((f.left+f.w-f.right)/2, f.h-4, "name", "middle", "size of a copy")
	c.text(4, 12, "name", "start", f.yName)
}

// yTicks are round numbers inside the axis.
func (f *frame) yTicks() (list []float64) {
	if f.log {
		digits := []float64{1, 2, 5}
		if f.maxY-f.minY > 2.5 {
			digits = []float64{1}
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
func (f *frame) band(c *canvas, l plotLine) {
	var points [][2]float64
	for _, q := range l.points {
		points = append(points, [2]float64{f.x(q.bytes), f.y(q.high)})
	}
	for _, q := range slices.Backward(l.points) {
		points = append(points, [2]float64{f.x(q.bytes), f.y(q.low)})
	}
	if len(l.points) > 1 {
		c.add(`<path d="%sZ" class="band p-%s"/>`, polyline(points), l.style.path)
	}
}

func (f *frame) line(c *canvas, l plotLine) {
	var points [][2]float64
	for _, q := range l.points {
		points = append(points, [2]float64{f.x(q.bytes), f.y(q.y)})
	}
	c.add(`<path d="%s" class="line p-%s"/>`, polyline(points), l.style.path)
	for _, p := range points {
		c.marker(l.style.mark, p[0], p[1], 3, "mark p-"+l.style.path)
	}
}

func (f *frame) limitLine(c *canvas) {
	if f.limit <= 0 {
		return
	}
	y := f.y(f.limit)
	c.line(f.left, y, f.w-f.right, y, "limit")
	c.text(f.left+6, y-6, "limit-name", "start", f.limitText)
}

// labels name the lines at their right ends, moved apart where they meet.
func (f *frame) labels(c *canvas) {
	type label struct {
		plotLine
		at, y float64
	}
	var list []label
	for _, l := range f.lines {
		y := f.y(l.points[len(l.points)-1].y)
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
		end := f.x(l.points[len(l.points)-1].bytes)
		c.add(`<path d="%s" class="leader p-%s"/>`, polyline([][2]float64{{end + 5, l.at}, {end + 14, l.y}}), l.style.path)
		c.text(end+18, l.y+4, "label", "start", l.style.name)
	}
}

// columns show the values of a size under the pointer, without a script.
func (f *frame) columns(c *canvas) {
	for i, s := range f.sizes {
		from, to := f.left-8, f.w-f.right+8
		if i > 0 {
			from = (f.x(f.sizes[i-1]) + f.x(s)) / 2
		}
		if i < len(f.sizes)-1 {
			to = (f.x(s) + f.x(f.sizes[i+1])) / 2
		}
		// The empty title keeps the figure's own from popping up.
		c.add(`<g class="column"><title></title>`)
		c.rect(from, f.top, to-from, f.h-f.top-f.bottom, 0, "hit")
		c.add(`<g class="tip">`)
		c.line(f.x(s), f.top, f.x(s), f.h-f.bottom, "cross")
		var rows []plotLine
		var values []string
		for _, l := range f.lines {
			for _, q := range l.points {
				if q.bytes == s {
					rows, values = append(rows, l), append(values, f.value(q.y))
				}
			}
		}
		const wide, row = 170, 18
		x, y := f.x(s)+12, f.top+6
		if x+wide > f.w {
			x = f.x(s) - 12 - wide
		}
		x = max(x, 2)
		c.rect(x, y, wide, float64(len(rows)+1)*row+10, 6, "box")
		c.text(x+10, y+row, "tip-head", "start", bytesText(s))
		for i, l := range rows {
			at := y + float64(i+2)*row
			c.marker(l.style.mark, x+14, at-4, 3, "mark p-"+l.style.path)
			c.text(x+26, at, "tip-text", "start", l.style.name)
			c.text(x+wide-10, at, "tip-text", "end", values[i])
		}
		c.add(`</g></g>`)
	}
}
