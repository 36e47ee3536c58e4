package linkreport

import (
	"html/template"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
)

// pinRows are the ways to make pinned memory that were timed, named for
// people.
func (r *Report) pinRows() (list []linkbench.Timing) {
	names := map[string]string{"pinned pool": "Pinion’s pool", "driver's allocation": "the driver’s allocation"}
	for _, t := range r.Bench.Pin {
		row, ok := timing(r.Bench.Pin, t.What)
		if !ok {
			continue
		}
		if name, known := names[t.What]; known {
			row.What = name
		}
		list = append(list, row)
	}
	return list
}

// pinCost draws what pinned memory costs to make.
func (r *Report) pinCost() template.HTML {
	rows := r.pinRows()
	if len(rows) == 0 {
		return ""
	}
	var longest time.Duration
	var about strings.Builder
	for _, t := range rows {
		longest = max(longest, t.Most)
		about.WriteString(t.What + ": " + page.DurationText(t.Median) + ". ")
	}
	title := "Time to make " + page.Bytes(r.Bench.Size) + " of pinned memory"
	draw := func(id, class string, w float64) template.HTML {
		const row, bar = 58, 22
		return page.Figure(id, class, title, about.String(), w, float64(len(rows))*row, func(c *page.Canvas) {
			full := w - 90 // room for the value behind the longest bar
			scale := func(d time.Duration) float64 { return full * float64(d) / float64(longest) }
			for i, t := range rows {
				y := float64(i) * row
				c.Text(0, y+15, "label", "start", t.What)
				fill := "bar"
				if i > 0 {
					fill = "bar other"
				}
				c.Rect(0, y+23, max(scale(t.Median), 1), bar, 3, fill)
				c.Line(scale(t.Least), y+23+bar/2, scale(t.Most), y+23+bar/2, "whisker")
				c.Line(scale(t.Least), y+29, scale(t.Least), y+39, "whisker")
				c.Line(scale(t.Most), y+29, scale(t.Most), y+39, "whisker")
				c.Text(scale(t.Most)+10, y+23+bar/2+5, "bar-value", "start", page.DurationText(t.Median))
			}
		})
	}
	return draw("pin-w", "plot wide", 800) + draw("pin-n", "plot narrow", 320)
}
