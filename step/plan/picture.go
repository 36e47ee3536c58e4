package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/plot"
	"github.com/pinion-gpu/pinion/internal/units"
)

// use is what bytes of a picture are for.
type use int

const (
	useResident use = iota
	useKept
	useSent
	useAgain
	useScratch
	uses
)

var useNames = [uses]struct {
	class, name string
	colour      plot.Colour
}{
	{"resident", "resident", plot.Colour{Light: "#9aa1a9", Dark: "#5b636d"}},
	{"kept", "kept until last used", plot.Colour{Light: "#003f9e", Dark: "#3f94fa"}},
	{"sent", "sent to the host and back", plot.Colour{Light: "#2b8fc0", Dark: "#b4f3ee"}},
	{"again", "computed again", plot.Colour{Light: "#d99a1c", Dark: "#f2d873"}},
	{"scratch", "scratch", plot.Colour{Light: "#14181f", Dark: "#eef1f5"}},
}

// The measures of a picture, in pixels.
const (
	pictureWide, pictureHigh = 860, 460
	areaLeft, areaTop        = 70, 62
	areaWide, areaHigh       = 760, 270
	stripHigh, stripGap      = 12, 10
)

// SVG draws the plan of a graph, as a file: the bytes in use over the step by what
// becomes of them, with those of the step without a budget, and below when operations
// run again and when values travel. It fails with ErrArgument if the plan is of another
// graph.
func (p *Plan) SVG(g Graph) (string, error) {
	pr, err := newProblem(&g, Options{})
	if err != nil {
		return "", err
	}
	for _, r := range p.Runs {
		if r.Op < 0 || r.Op >= g.ops() {
			return "", fmt.Errorf("plan: %w: a picture of a plan with operation %d, of a graph of %d", ErrArgument, r.Op, g.ops())
		}
	}
	for _, l := range p.Lives {
		if l.Value >= len(g.Values) || l.From < 0 || l.To < l.From || l.To >= len(p.Runs) {
			return "", fmt.Errorf("plan: %w: a picture of a plan with value %d from run %d to %d, of a graph of %d values, and %d runs", ErrArgument, l.Value, l.From, l.To, len(g.Values), len(p.Runs))
		}
	}
	if len(p.Runs) == 0 {
		return "", fmt.Errorf("plan: %w: a picture of a plan without runs", ErrArgument)
	}
	d := drawing{plan: p, g: &g, used: p.used(&g), whole: pr.try(pr.keepAll(), math.MaxInt64).o.bytes}
	d.seconds = max(p.Seconds, 1e-12)
	top := p.Live
	for _, b := range d.whole {
		top = max(top, b)
	}
	d.top = max(1, float64(top)*1.04)
	var light, dark strings.Builder
	for _, u := range useNames {
		fmt.Fprintf(&light, ".%s { fill: %s }\n", u.class, u.colour.Light)
		fmt.Fprintf(&dark, ".%s { fill: %s }\n", u.class, u.colour.Dark)
	}
	light.WriteString(".whole { fill: none; stroke: #14181f; stroke-width: 1.5; stroke-dasharray: 6 5 }\n.strip { fill: #e8ebef }\n")
	dark.WriteString(".whole { stroke: #eef1f5 }\n.strip { fill: #262d36 }\n")
	return plot.File("memory of a step", strings.TrimSpace(p.String()), pictureWide, pictureHigh, light.String(), dark.String(), d.draw), nil
}

// used are the bytes in use in each run, by what becomes of their values.
func (p *Plan) used(g *Graph) [][uses]int64 {
	fate := make([]use, len(g.Values))
	for v := range fate {
		fate[v] = useKept
	}
	for _, r := range p.Runs {
		if r.Again {
			for _, v := range g.op(r.Op).Writes {
				fate[v] = useAgain
			}
		}
	}
	for _, l := range p.Lives {
		if l.Sent {
			fate[l.Value] = useSent
		}
	}
	used := make([][uses]int64, len(p.Runs)+1)
	for _, l := range p.Lives {
		switch {
		case l.Scratch:
			used[l.From][useScratch] += g.op(p.Runs[l.From].Op).Scratch
			used[l.To+1][useScratch] -= g.op(p.Runs[l.From].Op).Scratch
		case l.Offset >= 0:
			from := l.From
			if l.Over >= 0 {
				from++ // until then, the memory is that of the other value
			}
			used[from][fate[l.Value]] += g.Values[l.Value].Bytes
			used[l.To+1][fate[l.Value]] -= g.Values[l.Value].Bytes
		}
	}
	used[0][useResident] = p.Resident
	for i := range p.Runs[1:] {
		for u := range used[i] {
			used[i+1][u] += used[i][u]
		}
	}
	return used[:len(p.Runs)]
}

// drawing is a picture that is being made.
type drawing struct {
	plan    *Plan
	g       *Graph
	used    [][uses]int64
	whole   []int64 // bytes of each operation without a budget
	seconds float64
	top     float64 // bytes at the upper edge
}

func (d *drawing) x(seconds float64) float64 {
	return areaLeft + areaWide*min(1, seconds/d.seconds)
}

func (d *drawing) y(bytes float64) float64 { return areaTop + areaHigh*(1-bytes/d.top) }

// end is when a run is over.
func (d *drawing) end(run int) float64 {
	if run+1 < len(d.plan.Runs) {
		return d.plan.Runs[run+1].Start
	}
	return d.plan.Seconds
}

func (d *drawing) draw(c *plot.Canvas) {
	x := float64(areaLeft)
	for u, name := range useNames {
		if d.has(use(u)) {
			c.Rect(x, 14, 12, 12, 2, name.class)
			c.Text(x+18, 24, "", "start", name.name)
			x += 40 + 6.2*float64(len(name.name))
		}
	}
	c.Line(x, 20, x+24, 20, "whole")
	c.Text(x+30, 24, "", "start", "without a budget")
	c.Text(areaLeft, areaTop-14, "label", "start", "bytes in use")
	for b := 0.0; b <= d.top; b += bytesStep(d.top) {
		c.Line(areaLeft, d.y(b), areaLeft+areaWide, d.y(b), "grid")
		c.Text(areaLeft-8, d.y(b)+4, "", "end", units.Bytes(int64(b)))
	}
	d.areas(c)
	bottom := float64(areaTop + areaHigh)
	c.Line(areaLeft, bottom, areaLeft+areaWide, bottom, "axis")
	y := bottom + 18
	for _, strip := range []struct {
		name, class string
		spans       [][2]float64
	}{
		{"again", "again", d.again()},
		{"out", "sent", d.travel(true)},
		{"back", "sent", d.travel(false)},
	} {
		c.Text(areaLeft-8, y+stripHigh-2, "", "end", strip.name)
		c.Rect(areaLeft, y, areaWide, stripHigh, 0, "strip")
		for _, s := range merged(strip.spans, d.seconds/areaWide/2) {
			c.Rect(d.x(s[0]), y, max(0.5, d.x(s[1])-d.x(s[0])), stripHigh, 0, strip.class)
		}
		y += stripHigh + stripGap
	}
	y += 6
	c.Line(areaLeft, y, areaLeft+areaWide, y, "axis")
	step := timeStep(d.seconds)
	for k := 0; float64(k)*step <= d.seconds; k++ {
		t := float64(k) * step
		c.Line(d.x(t), y, d.x(t), y+4, "axis")
		text := "0"
		if k > 0 {
			text = units.Seconds(t)
		}
		c.Text(d.x(t), y+18, "", "middle", text)
	}
}

func (d *drawing) has(u use) bool {
	for _, x := range d.used {
		if x[u] > 0 {
			return true
		}
	}
	return false
}

// areas draws the bytes of each use on top of those before it. Where many runs come on
// one pixel, the one with most bytes is drawn.
func (d *drawing) areas(c *plot.Canvas) {
	var columns []int // runs
	last := math.Inf(-1)
	for i, r := range d.plan.Runs {
		if at := d.x(r.Start); at >= last+0.5 {
			columns, last = append(columns, i), at
		} else if r.Bytes > d.plan.Runs[columns[len(columns)-1]].Bytes {
			columns[len(columns)-1] = i
		}
	}
	lower := make([]float64, len(columns))
	// edges are a line of steps over the columns.
	edges := func(height func(k int) float64) (list [][2]float64) {
		for k, i := range columns {
			to := d.seconds
			if k+1 < len(columns) {
				to = d.plan.Runs[columns[k+1]].Start
			}
			y := d.y(height(k))
			list = append(list, [2]float64{d.x(d.plan.Runs[i].Start), y}, [2]float64{d.x(to), y})
		}
		return list
	}
	for u := range uses {
		if !d.has(u) {
			continue
		}
		line := edges(func(k int) float64 { return lower[k] })
		for k, i := range columns {
			lower[k] += float64(d.used[i][u])
		}
		upper := edges(func(k int) float64 { return lower[k] })
		for k := len(line) - 1; k >= 0; k-- {
			upper = append(upper, line[k])
		}
		c.Add(`<path d="%sZ" class="%s"/>`, plot.Polyline(upper), useNames[u].class)
	}
	now := float64(d.whole[0])
	whole := edges(func(k int) float64 {
		if r := d.plan.Runs[columns[k]]; !r.Again {
			op := r.Op
			if other := op - len(d.g.Ops); other >= 0 {
				op = d.g.Again[other].For // it runs in the place of this one
			}
			now = float64(d.whole[op])
		}
		return now
	})
	c.Add(`<path d="%s" class="whole"/>`, plot.Polyline(whole))
}

// again are the times when operations run again.
func (d *drawing) again() (list [][2]float64) {
	for i, r := range d.plan.Runs {
		if r.Again {
			list = append(list, [2]float64{r.Start, d.end(i)})
		}
	}
	return list
}

// travel are the times between which values are copied: to the host, from when they are
// written until their memory was given back; and back, from when they are fetched until
// they are waited for.
func (d *drawing) travel(out bool) (list [][2]float64) {
	for l, x := range d.plan.Lives {
		if out && x.Sent {
			list = append(list, [2]float64{d.end(x.From), d.end(x.To)})
		}
		if !out && x.Fetched {
			for i := x.From; i <= x.To; i++ {
				if slices.Contains(d.plan.Runs[i].Wait, l) {
					list = append(list, [2]float64{d.plan.Runs[x.From].Start, d.plan.Runs[i].Start})
					break
				}
			}
		}
	}
	return list
}

// merged joins spans with gaps that cannot be seen.
func merged(spans [][2]float64, gap float64) (list [][2]float64) {
	slices.SortFunc(spans, func(a, b [2]float64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	for _, s := range spans {
		if n := len(list); n > 0 && s[0] <= list[n-1][1]+gap {
			list[n-1][1] = max(list[n-1][1], s[1])
		} else {
			list = append(list, s)
		}
	}
	return list
}

// bytesStep is a power of two that makes four to eight steps.
func bytesStep(top float64) float64 { return math.Exp2(math.Max(0, math.Ceil(math.Log2(top/8)))) }

// timeStep is 1, 2 or 5 of a power of ten that makes about eight steps.
func timeStep(seconds float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(seconds/8)))
	for _, k := range []float64{1, 2, 5} {
		if seconds/(k*power) <= 10 {
			return k * power
		}
	}
	return 10 * power
}
