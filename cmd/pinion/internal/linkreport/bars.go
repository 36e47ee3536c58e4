package linkreport

import (
	"html/template"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/internal/plot"
	"github.com/pinion-gpu/pinion/internal/units"
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
	b := plot.Bars{ID: "pin", Title: "Time to allocate " + units.Bytes(r.Bench.PinSize) + " of pinned memory"}
	for i, t := range rows {
		b.Rows = append(b.Rows, plot.Bar{
			Name: t.What, Text: units.Duration(t.Median), Other: i > 0,
			Value: float64(t.Median), Low: float64(t.Least), High: float64(t.Most),
		})
	}
	return b.Draw()
}
