// Package curve draws the losses of a training: as text, and as SVG.
package curve

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/internal/plot"
)

// axis is the range of some values, which is not empty.
type axis struct{ low, high float64 }

func over(values []float64) axis {
	a := axis{math.Inf(1), math.Inf(-1)}
	for _, v := range values {
		a.low, a.high = min(a.low, v), max(a.high, v)
	}
	if a.low == a.high {
		a.low, a.high = a.low-0.5, a.high+0.5
	}
	return a
}

// at is where a value lies, from 0 to 1.
func (a axis) at(v float64) float64 { return (v - a.low) / (a.high - a.low) }

// label writes a value of an axis, with the digits that tell values apart which are so far
// from each other.
func label(v, apart float64) string {
	if math.Abs(v) >= 1e5 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return strconv.FormatFloat(v, 'f', min(max(1-int(math.Floor(math.Log10(apart))), 0), 5), 64)
}

// rows of a text.
const rows = 8

// Text draws losses of steps from first on, in lines of at most so many columns, of which
// each is the mean of some steps. It is empty where there are fewer than two losses.
func Text(losses []float64, first, columns int) string {
	columns = min(columns-10, len(losses))
	if len(losses) < 2 || columns < 2 {
		return ""
	}
	means := make([]float64, columns)
	for c := range means {
		part := losses[c*len(losses)/columns : (c+1)*len(losses)/columns]
		for _, v := range part {
			means[c] += v / float64(len(part))
		}
	}
	a := over(means)
	grid := [rows][]rune{}
	for r := range grid {
		grid[r] = []rune(strings.Repeat(" ", columns))
	}
	for c, v := range means {
		grid[int(math.Round((1-a.at(v))*(rows-1)))][c] = '•'
	}
	var b strings.Builder
	for r, line := range grid {
		value := ""
		if r == 0 || r == rows-1 {
			value = label(a.high+(a.low-a.high)*float64(r)/(rows-1), (a.high-a.low)/(rows-1))
		}
		fmt.Fprintf(&b, "%8s │%s\n", value, strings.TrimRight(string(line), " "))
	}
	from, to := fmt.Sprint("step ", first), fmt.Sprint(first+len(losses)-1)
	fmt.Fprintf(&b, "%8s └%s\n%10s%s%*s\n", "", strings.Repeat("─", columns), "", from, max(columns-len(from), len(to)+1), to)
	return b.String()
}

// The measures of a picture, in pixels.
const (
	wide, high  = 860, 400
	left, right = 70, 840
	top, bottom = 60, 340
	ticks       = 4
)

// SVG draws losses of steps from first on, as a file. There is at least one.
func SVG(title string, losses []float64, first int) string {
	y := over(losses)
	last := first + len(losses) - 1
	x := axis{float64(first), float64(max(last, first+1))}
	points := make([][2]float64, len(losses))
	for i, v := range losses {
		points[i] = [2]float64{left + (right-left)*x.at(float64(first+i)), bottom - (bottom-top)*y.at(v)}
	}
	about := fmt.Sprintf("The loss over steps %d to %d: %.4g at first, %.4g at last.", first, last, losses[0], losses[len(losses)-1])
	const light, dark = ".loss { fill: none; stroke: #003f9e; stroke-width: 2 }", ".loss { stroke: #3f94fa }"
	return plot.File(title, about, wide, high, light, dark, func(c *plot.Canvas) {
		c.Text(left, 30, "label", "start", title)
		drawn := 0 // the last step that is named
		for i := range ticks + 1 {
			part := float64(i) / ticks
			at := bottom - (bottom-top)*part
			c.Line(left, at, right, at, "grid")
			c.Text(left-8, at+4, "tick", "end", label(y.low+(y.high-y.low)*part, (y.high-y.low)/ticks))
			if step := int(math.Round(x.low + (x.high-x.low)*part)); step != drawn {
				c.Text(left+(right-left)*x.at(float64(step)), bottom+22, "tick", "middle", fmt.Sprint(step))
				drawn = step
			}
		}
		c.Text((left+right)/2, bottom+46, "tick", "middle", "step")
		c.Text(left, top-12, "tick", "start", "loss")
		if len(points) == 1 {
			c.Marker("circle", points[0][0], points[0][1], 3, "loss")
			return
		}
		c.Add(`<path class="loss" d="%s"/>`, plot.Polyline(points))
	})
}
