package tierreport

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/tierbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/plot"
	"github.com/pinion-gpu/pinion/internal/tierdoc"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Report is everything that the page tells.
type Report struct {
	MeasuredAt string // as people should read it
	Commit     string // of the code that measured
	Platform   string // system, architecture, Go version
	CPU        string // name of the processor; "" is unknown
	CPUs       int
	Device     device.Info
	Options    tierbench.Options
	Bench      *tierbench.Report
}

//go:embed page.html.tmpl
var pageText string

//go:embed style.css
var styleText string

var pageTemplate = page.Parse(pageText)

// view is the data of the page.
type view struct {
	page.Head
	Name, Finding, Array, Seconds string
	Facts, Origin                 []string
	Tiles                         []page.Tile
	Legend                        []page.LegendRow
	Plots                         []page.Graph
	Tables                        []page.Table
}

// Render writes the page. It fails only where w does.
func Render(w io.Writer, r *Report) error {
	v := view{
		Name:    r.Device.Name,
		Finding: r.finding(),
		Array:   units.Bytes(r.Options.ArrayBytes),
		Seconds: units.Seconds(r.Options.Seconds),
		Facts: []string{"a budget of " + units.Bytes(r.Options.Budget), "arrays of " + units.Bytes(r.Options.ArrayBytes),
			"the link: " + units.Rate(r.Bench.LinkH2D) + " to the device, " + units.Rate(r.Bench.LinkD2H) + " back", r.Platform},
		Tiles:  r.tiles(),
		Tables: r.tables(),
	}
	if r.CPU != "" {
		v.Facts = append(v.Facts, fmt.Sprintf("%s, %d CPUs", r.CPU, r.CPUs))
	}
	v.Origin = append(v.Origin, "measured "+r.MeasuredAt)
	if r.Commit != "" {
		commit, rest, _ := strings.Cut(r.Commit, " ")
		v.Origin = append(v.Origin, strings.TrimSpace("commit "+commit[:min(len(commit), 12)]+" "+rest))
	}
	v.Plots, v.Legend = r.plots()
	v.Head = page.Head{
		Style:       page.Style(styleText),
		Title:       v.Name + ": working sets larger than device memory, measured by Pinion",
		Description: "Arrays that move between host memory and the device as they are used. " + v.Finding,
	}
	return page.Render(w, pageTemplate, v)
}

// kinds lists the ways of using arrays, in the order of the rows.
func (r *Report) kinds() (list []tierdoc.Use) {
	for _, x := range r.Bench.Rows {
		if !slices.Contains(list, x.Use) {
			list = append(list, x.Use)
		}
	}
	return list
}

// rows are those of one kind, and of one who holds the arrays or of all.
func (r *Report) rows(kind tierdoc.Use, by string) (list []tierbench.Row) {
	for _, x := range r.Bench.Rows {
		if x.Use == kind && (by == "" || x.By == by) && x.Seconds > 0 {
			list = append(list, x)
		}
	}
	return list
}

// plots draws the rate over the working set for each kind, with a legend.
func (r *Report) plots() (list []page.Graph, legend []page.LegendRow) {
	drawn := map[string]bool{}
	for i, kind := range r.kinds() {
		graph := tierdoc.Curves(kind)
		graph.ID, graph.LimitText = fmt.Sprintf("k%d", i), "the link"
		for _, s := range tierdoc.Series() {
			line := plot.Line{Series: s}
			for _, x := range r.rows(kind, s.Name) {
				if rate := x.Rate() / 1e9; rate > 0 && !math.IsInf(rate, 0) {
					if link := r.Bench.LinkH2D / 1e9; rate <= link {
						graph.Limit = link // else it would lie below the plot
					}
					line.Points = append(line.Points, tierdoc.Point(x.Ratio, rate))
				}
			}
			graph.Add(line)
			drawn[s.ID] = drawn[s.ID] || len(line.Points) > 0
		}
		if svg := graph.Draw(800, 360); svg != "" {
			list = append(list, page.Graph{Title: graph.Title, SVG: svg})
		}
	}
	for _, s := range tierdoc.Series() {
		if drawn[s.ID] {
			legend = append(legend, page.Legend(s))
		}
	}
	return list, legend
}

// largest is the row of the largest working set of a kind.
func (r *Report) largest(access string, write bool, by string) (row tierbench.Row, ok bool) {
	for _, x := range r.rows(tierdoc.Use{Access: access, Write: write}, by) {
		if x.Ratio > row.Ratio {
			row, ok = x, true
		}
	}
	return row, ok
}

func (r *Report) finding() string {
	x, ok := r.largest(tierdoc.Sequential, false, tierdoc.Announced)
	if !ok || r.Bench.LinkH2D <= 0 {
		return "Working sets around the size of a budget of device memory."
	}
	return fmt.Sprintf("A sweep over %gx the budget went through its bytes at %s, %s of the link's rate.", x.Ratio, units.Rate(x.Rate()), page.Percent(x.Rate()/r.Bench.LinkH2D))
}

func (r *Report) tiles() (list []page.Tile) {
	add := func(name string, v float64, note string) {
		list = append(list, page.Tile{Name: name, Values: []page.TileValue{{Number: units.Digits(v / 1e9), Unit: "GB/s"}}, Note: note})
	}
	if x, ok := r.largest(tierdoc.Sequential, false, tierdoc.Announced); ok {
		add(fmt.Sprintf("Sweep, %gx", x.Ratio), x.Rate(), "of bytes used, read only")
	}
	if x, ok := r.largest(tierdoc.Sequential, true, tierdoc.Announced); ok {
		add(fmt.Sprintf("Sweep, written, %gx", x.Ratio), x.Moved(), "over the link, both directions together")
	}
	if x, ok := r.largest(tierdoc.Zipf, false, tierdoc.Announced); ok && x.Least > 0 {
		list = append(list, page.Tile{Name: fmt.Sprintf("Misses, zipf, %gx", x.Ratio),
			Values: []page.TileValue{{Number: fmt.Sprintf("%.2f", float64(x.Filled)/float64(x.Least)), Unit: "of the best"}}, Note: "with a recorded order"})
	}
	if p := r.Bench.Pressure; p.Arrays > 0 {
		list = append(list, page.Tile{Name: "Pool of half the size", Values: []page.TileValue{{Number: fmt.Sprint(p.Failures), Unit: "failures"}},
			Note: fmt.Sprintf("%s and %s beside them", units.Count(p.Touches, "touch"), units.Count(p.Allocs, "allocation"))})
	}
	return list
}

func (r *Report) tables() (list []page.Table) {
	for _, kind := range r.kinds() {
		t := page.Table{Title: kind.String(), Head: []string{"working set", "held by", "used GB/s", "moved GB/s", "brought in", "least", "LRU", "floor / time"}}
		for _, x := range r.rows(kind, "") {
			share := func(n int64) page.Cell { return page.Cell{Main: page.Percent(float64(n) / float64(x.Bytes))} }
			floor := page.Cell{} // what fits has none
			if x.Least > 0 {
				floor.Main = page.Percent(float64(x.Least) / r.Bench.LinkH2D / x.Seconds)
			}
			t.Rows = append(t.Rows, []page.Cell{{Main: fmt.Sprintf("%gx", x.Ratio)}, {Main: x.By}, {Main: units.Digits(x.Rate() / 1e9)},
				{Main: units.Digits(x.Moved() / 1e9)}, share(x.Filled), share(x.Least), share(x.LRU), floor})
		}
		list = append(list, t)
	}
	return list
}
