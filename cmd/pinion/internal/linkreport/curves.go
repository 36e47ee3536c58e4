package linkreport

import (
	"math"
	"strconv"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/internal/plot"
	"github.com/pinion-gpu/pinion/internal/units"
)

// latencySizes is the largest copy in the plots of times: above it the link
// matters, which the plots of rates show.
const latencySizes = 1 << 20

// bandwidth plots the rates of every path, one plot for each direction.
func (r *Report) bandwidth() (list []page.Graph) {
	for _, w := range ways {
		p := plot.Plot{
			ID: "rate-" + w.id, Title: w.title + ": rate by copy size", YName: "GB/s", XName: "copy size", Label: units.Bytes, Short: units.BytesShort,
			Value: func(v float64) string { return gb(v) + " GB/s" },
			Tick:  func(v float64) string { return strconv.FormatFloat(v/1e9, 'g', 4, 64) },
		}
		for _, s := range r.styles() {
			line := plot.Line{Series: s}
			for _, q := range r.curve(s.ID, w.id) {
				median, least, most := q.Rates()
				line.Points = append(line.Points, plot.Point{X: q.Bytes, Y: median, Low: least, High: most})
			}
			p.Add(line)
		}
		note := ""
		if l, ok := r.limit(w.id); ok {
			p.Limit, p.LimitText = l.Rate, "limit of the link: "+gb(l.Rate)+" GB/s"
			note = "Limit, computed: " + l.Formula
			if l.Assumed {
				note += ". The packet size is unknown; 256 bytes are assumed"
			}
			note += "."
		}
		if svg := p.Draw(800, 400); svg != "" {
			list = append(list, page.Graph{Title: w.title, Note: note, SVG: svg})
		}
	}
	return list
}

// latency plots the times of small copies.
func (r *Report) latency() (list []page.Graph) {
	for _, w := range ways {
		p := plot.Plot{
			ID: "time-" + w.id, Title: w.title + ": time by copy size", YName: "time of a copy", XName: "copy size", Label: units.Bytes, Short: units.BytesShort, Log: true,
			Value: func(v float64) string { return units.Duration(time.Duration(v)) },
			Tick: func(v float64) string {
				unit := 0
				for v = math.Round(v); v >= 1e3 && unit < 3; unit++ {
					v /= 1e3
				}
				return strconv.FormatFloat(v, 'g', 4, 64) + " " + []string{"ns", "µs", "ms", "s"}[unit]
			},
		}
		for _, s := range r.styles() {
			line := plot.Line{Series: s}
			for _, q := range r.curve(s.ID, w.id) {
				if q.Bytes <= latencySizes {
					line.Points = append(line.Points, plot.Point{X: q.Bytes, Y: float64(q.Median), Low: float64(q.Least), High: float64(q.Most)})
				}
			}
			p.Add(line)
		}
		if svg := p.Draw(460, 330); svg != "" {
			list = append(list, page.Graph{Title: w.title, SVG: svg})
		}
	}
	return list
}

// legend explains the paths that have a curve.
func (r *Report) legend() (list []page.LegendRow) {
	for _, s := range r.styles() {
		if len(r.curve(s.ID, "h2d"))+len(r.curve(s.ID, "d2h")) == 0 {
			continue
		}
		list = append(list, page.Legend(s))
	}
	return list
}
