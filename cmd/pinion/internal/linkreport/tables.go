package linkreport

import (
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/internal/units"
)

// tables lists what was measured.
func (r *Report) tables() (list []page.Table) {
	for _, t := range []page.Table{r.bulkTable(), r.timeTable(), r.curveTable("h2d"), r.curveTable("d2h"), r.choiceTable()} {
		if len(t.Rows) > 0 {
			list = append(list, t)
		}
	}
	return list
}

func (r *Report) bulkTable() page.Table {
	t := page.Table{Title: "Copies of " + units.Bytes(r.Bench.Size) + ", GB/s", Head: []string{"Path", "Median", "Least", "Most", "Of limit"}}
	names := map[string]string{"h2d": "to device", "d2h": "to host", "both": "both at once"}
	for _, b := range r.Bench.Bulk {
		b, ok := r.bulk(b.Path, b.Direction)
		if !ok {
			continue
		}
		share := "–"
		if l, ok := r.limit(b.Direction); ok && b.Direction != "both" {
			share = page.Percent(b.Median / l.Rate)
		}
		t.Rows = append(t.Rows, []page.Cell{{Main: b.Path, Sub: names[b.Direction]}, {Main: gb(b.Median)}, {Main: gb(b.Least)}, {Main: gb(b.Most)}, {Main: share}})
	}
	return t
}

func (r *Report) timeTable() page.Table {
	t := page.Table{Title: "Times", Head: []string{"What", "Median", "Least", "Most"}}
	add := func(rows []linkbench.Timing, name string) {
		for _, row := range rows {
			if row, ok := timing(rows, row.What); ok {
				what := strings.NewReplacer("h2d", "to device", "d2h", "to host").Replace(row.What)
				t.Rows = append(t.Rows, []page.Cell{{Main: name + what}, {Main: units.Duration(row.Median)}, {Main: units.Duration(row.Least)}, {Main: units.Duration(row.Most)}})
			}
		}
	}
	if r.Opened > 0 {
		t.Rows = append(t.Rows, []page.Cell{{Main: "open the device, once"}, {Main: units.Duration(r.Opened)}, {Main: "–"}, {Main: "–"}})
	}
	add(r.Bench.Small, "")
	add(r.pinRows(), "pin "+units.Bytes(r.Bench.PinSize)+": ")
	return t
}

// curveTable has a row for each size and a column for each path.
func (r *Report) curveTable(direction string) page.Table {
	t := page.Table{Title: "To the device, by size: GB/s and time of a copy", Head: []string{"Size"}}
	if direction == "d2h" {
		t.Title = "To the host, by size: GB/s and time of a copy"
	}
	var paths []string
	for _, s := range r.styles() {
		if len(r.curve(s.ID, direction)) > 0 {
			paths, t.Head = append(paths, s.ID), append(t.Head, s.Name)
		}
	}
	if paths == nil {
		return t
	}
	for _, size := range r.sizes() {
		row := []page.Cell{{Main: units.Bytes(size)}}
		for _, path := range paths {
			c := page.Cell{Main: "–"}
			if p, ok := r.at(path, direction, size); ok {
				c = page.Cell{Main: gb(perSecond(p.Bytes, p.Median)), Sub: units.Duration(p.Median)}
			}
			row = append(row, c)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (r *Report) choiceTable() page.Table {
	t := page.Table{Title: "Pinion’s choice for pageable memory", Head: []string{"Size", "Chosen", "Best", "Best path", "Chosen / best"}}
	names := map[string]string{"h2d": "to device", "d2h": "to host"}
	for _, c := range r.choices() {
		t.Rows = append(t.Rows, []page.Cell{
			{Main: units.Bytes(c.Bytes), Sub: names[c.Direction]},
			{Main: units.Duration(c.Chosen)},
			{Main: units.Duration(c.Best)},
			{Main: c.BestPath},
			{Main: fmt.Sprintf("%.2f", c.Ratio)},
		})
	}
	return t
}
