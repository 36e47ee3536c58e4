package linkreport

import (
	"html/template"
	"math"
	"strconv"
	"time"
)

// graph is a figure with its heading.
type graph struct {
	Title string
	Note  string
	SVG   template.HTML
}

// latencySizes is the largest copy in the plots of times: above it the link
// matters, which the plots of rates show.
const latencySizes = 1 << 20

// bandwidth plots the rates of every path, one plot for each direction.
func (r *Report) bandwidth() (list []graph) {
	for _, w := range ways {
		p := plot{
			id: "rate-" + w.id, title: w.title + ": rate over size", yName: "GB/s",
			value: func(v float64) string { return gb(v) + " GB/s" },
			tick:  func(v float64) string { return strconv.FormatFloat(v/1e9, 'g', 4, 64) },
		}
		for _, s := range r.styles() {
			line := plotLine{style: s}
			for _, q := range r.curve(s.path, w.id) {
				median, least, most := q.Rates()
				line.points = append(line.points, plotPoint{q.Bytes, median, least, most})
			}
			p.add(line)
		}
		note := ""
		if l, ok := r.limit(w.id); ok {
			p.limit, p.limitText = l.rate, "limit of the link: "+gb(l.rate)+" GB/s"
			note = "Limit, computed: " + l.formula
			if l.assumed {
				note += ". The size of packets is not known here; 256 bytes are assumed"
			}
			note += "."
		}
		if svg := p.draw(800, 400); svg != "" {
			list = append(list, graph{w.title, note, svg})
		}
	}
	return list
}

// latency plots the times of small copies.
func (r *Report) latency() (list []graph) {
	for _, w := range ways {
		p := plot{
			id: "time-" + w.id, title: w.title + ": time over size", yName: "time of a copy", log: true,
			value: func(v float64) string { return durationText(time.Duration(v)) },
			tick: func(v float64) string {
				unit := 0
				for v = math.Round(v); v >= 1e3 && unit < 3; unit++ {
					v /= 1e3
				}
				return strconv.FormatFloat(v, 'g', 4, 64) + " " + []string{"ns", "µs", "ms", "s"}[unit]
			},
		}
		for _, s := range r.styles() {
			line := plotLine{style: s}
			for _, q := range r.curve(s.path, w.id) {
				if q.Bytes <= latencySizes {
					line.points = append(line.points, plotPoint{q.Bytes, float64(q.Median), float64(q.Least), float64(q.Most)})
				}
			}
			p.add(line)
		}
		if svg := p.draw(460, 330); svg != "" {
			list = append(list, graph{Title: w.title, SVG: svg})
		}
	}
	return list
}

func (p *plot) add(l plotLine) {
	if len(l.points) > 0 {
		p.lines = append(p.lines, l)
	}
}

// legendRow explains a path.
type legendRow struct {
	Mark        template.HTML
	Name, About string
}

// legend explains the paths that have a curve.
func (r *Report) legend() (list []legendRow) {
	for _, s := range r.styles() {
		if len(r.curve(s.path, "h2d"))+len(r.curve(s.path, "d2h")) == 0 {
			continue
		}
		var c canvas
		c.add(`<svg class="swatch" aria-hidden="true" viewBox="0 0 28 14">`)
		c.add(`<path d="M1 7L27 7" class="line p-%s"/>`, s.path)
		c.marker(s.mark, 14, 7, 3.5, "mark p-"+s.path)
		c.add(`</svg>`)
		list = append(list, legendRow{template.HTML(c.b.String()), s.name, s.about})
	}
	return list
}
