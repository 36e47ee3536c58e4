package linkreport

import (
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
)

// numbers is a table; the first column names the rows.
type numbers struct {
	Title string
	Head  []string
	Rows  [][]cell
}

// cell is a number, with a second one under it.
type cell struct{ Main, Sub string }

// tables lists what was measured.
func (r *Report) tables() (list []numbers) {
	for _, t := range []numbers{r.bulkTable(), r.timeTable(), r.curveTable("h2d"), r.curveTable("d2h"), r.choiceTable()} {
		if len(t.Rows) > 0 {
			list = append(list, t)
		}
	}
	return list
}

func (r *Report) bulkTable() numbers {
	t := numbers{Title: "Copies of " + bytesText(r.Bench.Size) + ", GB/s", Head: []string{"Path", "Median", "Least", "Most", "Of the limit"}}
	names := map[string]string{"h2d": "to device", "d2h": "to host", "both": "both at once"}
	for _, b := range r.Bench.Bulk {
		b, ok := r.bulk(b.Path, b.Direction)
		if !ok {
			continue
		}
		share := "–"
		if l, ok := r.limit(b.Direction); ok && b.Direction != "both" {
			share = percent(b.Median / l.rate)
		}
		t.Rows = append(t.Rows, []cell{{b.Path, names[b.Direction]}, {gb(b.Median), ""}, {gb(b.Least), ""}, {gb(b.Most), ""}, {share, ""}})
	}
	return t
}

func (r *Report) timeTable() numbers {
	t := numbers{Title: "Times", Head: []string{"What", "Median", "Least", "Most"}}
	add := func(rows []linkbench.Timing, name string) {
		for _, row := range rows {
			if row, ok := timing(rows, row.What); ok {
				what := strings.NewReplacer("h2d", "to device", "d2h", "to host").Replace(row.What)
				t.Rows = append(t.Rows, []cell{{name + what, ""}, {durationText(row.Median), ""}, {durationText(row.Least), ""}, {durationText(row.Most), ""}})
			}
		}
	}
	if r.Opened > 0 {
		t.Rows = append(t.Rows, []cell{{"open the device, once", ""}, {durationText(r.Opened), ""}, {"–", ""}, {"–", ""}})
	}
	add(r.Bench.Small, "")
	add(r.pinRows(), "pin "+bytesText(r.Bench.Size)+": ")
	return t
}

// curveTable has a row for each size and a column for each path.
func (r *Report) curveTable(direction string) numbers {
	t := numbers{Title: "To the device, by size: GB/s and time of a copy", Head: []string{"Size"}}
	if direction == "d2h" {
		t.Title = "To the host, by size: GB/s and time of a copy"
	}
	var paths []string
	for _, s := range r.styles() {
		if len(r.curve(s.path, direction)) > 0 {
			paths, t.Head = append(paths, s.path), append(t.Head, s.name)
		}
	}
	if paths == nil {
		return t
	}
	for _, size := range r.sizes() {
		row := []cell{{bytesText(size), ""}}
		for _, path := range paths {
			c := cell{"–", ""}
			if p, ok := r.at(path, direction, size); ok {
				c = cell{gb(perSecond(p.Bytes, p.Median)), durationText(p.Median)}
			}
			row = append(row, c)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (r *Report) choiceTable() numbers {
	t := numbers{Title: "Pinion’s choice for pageable memory", Head: []string{"Size", "Chosen", "Best", "Best path", "Chosen / best"}}
	names := map[string]string{"h2d": "to device", "d2h": "to host"}
	for _, c := range r.choices() {
		t.Rows = append(t.Rows, []cell{{bytesText(c.Bytes), names[c.Direction]}, {durationText(c.Chosen), ""},
			{durationText(c.Best), ""}, {c.BestPath, ""}, {fmt.Sprintf("%.2f", c.Ratio), ""}})
	}
	return t
}
