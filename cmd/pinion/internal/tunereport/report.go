package tunereport

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/internal/plot"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/tune"
)

// Report is everything that the page tells.
type Report struct {
	Dataset  string   // path
	Samples  string   // a phrase: how many there are, and what one is
	Targets  []string // a phrase each: what goes with the samples
	Device   string   // the vendor's name
	Platform string   // system, architecture, Go version
	CPU      string   // name of the processor; "" is unknown
	CPUs     int
	Commit   string // of the code that measured
	Result   *tune.Result
}

//go:embed page.html.tmpl
var pageText string

//go:embed style.css
var styleText string

var pageTemplate = page.Parse(pageText)

// view is what the template shows.
type view struct {
	page.Head
	Name    string
	Facts   []string
	Origin  []string
	Finding string
	Tiles   []page.Tile
	Go      string
	PyTorch string
	Why     []string
	Legend  []page.LegendRow
	Plots   []page.Graph
	Stages  template.HTML
	Tables  []page.Table
	Result  *tune.Result
}

// Render writes the page. It fails only where w does.
func Render(w io.Writer, r *Report) error {
	why := r.Result.Why()
	if doubt := r.Result.Doubt(); doubt != "" {
		why = append([]string{doubt}, why...)
	}
	v := view{
		Name:    filepath.Base(r.Dataset),
		Facts:   r.facts(),
		Origin:  r.origin(),
		Finding: why[0],
		Tiles:   r.tiles(),
		Go:      r.Result.Best.Go(),
		PyTorch: r.Result.PyTorch(),
		Why:     why[1:],
		Stages:  r.stages(),
		Tables:  r.tables(),
		Result:  r.Result,
	}
	v.Plots, v.Legend = r.plots()
	v.Head = page.Head{
		Style:       page.Style(styleText),
		Title:       v.Name + ": how to feed it, measured by Pinion",
		Description: "The settings of a loader, found by measurement. " + v.Finding,
	}
	return page.Render(w, pageTemplate, v)
}

// facts name the machine and the dataset.
func (r *Report) facts() (list []string) {
	list = append(list, r.Samples)
	list = append(append(list, r.Targets...), r.Device)
	if r.CPU != "" {
		list = append(list, fmt.Sprintf("%s, %d CPUs", r.CPU, r.CPUs))
	}
	return append(list, r.Platform)
}

// origin says when and by which code.
func (r *Report) origin() (list []string) {
	list = append(list, "measured "+r.Result.At.UTC().Format(time.RFC3339))
	if r.Commit != "" {
		commit, rest, _ := strings.Cut(r.Commit, " ")
		list = append(list, strings.TrimSpace("commit "+commit[:min(len(commit), 12)]+" "+rest))
	}
	return list
}

func (r *Report) tiles() []page.Tile {
	best := r.Result
	one := func(name, number, unit, note string) page.Tile {
		return page.Tile{Name: name, Values: []page.TileValue{{Number: number, Unit: unit}}, Note: note}
	}
	list := []page.Tile{
		one("Rate", short(best.PerSecond), "samples/s", r.how()),
		one("Workers", fmt.Sprint(best.Best.Workers), "", fmt.Sprintf("prefetch %d batches of %d", best.Best.Prefetch, best.Best.Batch)),
	}
	memory, note := best.HostBytes, "of host memory, pageable"
	switch {
	case best.Best.Pin:
		memory, note = best.PinnedBytes, "of host memory, pinned"
	case best.Best.Copiers > 0:
		memory -= best.PinnedBytes
		note = fmt.Sprintf("of host memory, pageable, and %s pinned, for %d copiers with chunks of %s",
			units.Bytes(best.PinnedBytes), best.Best.Copiers, units.Bytes(best.Best.ChunkBytes))
	}
	number, unit, _ := strings.Cut(units.Bytes(memory), " ")
	list = append(list, one("Memory", number, unit, note))
	if best.StepSeconds > 0 {
		step := units.Duration(time.Duration(best.StepSeconds * 1e9))
		list = append(list, one("The device waits", page.Percent(best.DeviceWait), "", "of the time, with steps of "+step))
	}
	busy := page.Percent(best.Limit.Busy) + " busy"
	if best.Limit.Name == tune.LimitLatency {
		busy = "nothing is busier than " + page.Percent(best.Limit.Busy)
	}
	return append(list,
		one("Limit", best.Limit.Name, "", busy),
		one("Search", fmt.Sprint(best.Trials), "trials", fmt.Sprintf("of %d settings, in %s", best.GridSize, units.Duration(time.Duration(best.Seconds*1e9)))))
}

// how says how sure the rate is.
func (r *Report) how() string {
	switch best := r.Result; {
	case !best.Settled:
		return "of the leading setting: not settled"
	case best.Error > 0:
		return "of the best setting, ± " + page.Percent(best.Error)
	}
	return "of the best setting"
}

// stages draws what a sample costs in each stage.
func (r *Report) stages() template.HTML {
	b := plot.Bars{ID: "stages", Title: "Time of a sample in each stage, with the best setting"}
	for _, s := range r.Result.Stages {
		if !(s.Seconds > 0) || math.IsInf(s.Seconds, 0) {
			continue
		}
		b.Rows = append(b.Rows, plot.Bar{
			Name:  fmt.Sprintf("%s (%s), %s busy", s.Name, s.Where, page.Percent(s.Busy)),
			Text:  units.Duration(time.Duration(s.Seconds * 1e9)),
			Value: s.Seconds, Other: s.Where != "worker",
		})
	}
	return b.Draw()
}

// tables lists what was tried.
func (r *Report) tables() []page.Table {
	tried := page.Table{Title: "Settings, samples a second", Head: []string{"Setting", "Rate", "Least", "Most", "Model", "Pinned", "Trials"}}
	refused := page.Table{Title: "Settings that do not fit", Head: []string{"Setting", "Why"}}
	if r.Result.StepSeconds > 0 {
		tried.Head = append(tried.Head, "Device waits")
	}
	for _, s := range r.Result.Settings {
		name := page.Cell{Main: s.Setting.String()}
		if s.Setting == r.Result.Best {
			name.Sub = "the choice"
		}
		if s.Refused != "" {
			refused.Rows = append(refused.Rows, []page.Cell{name, {Main: s.Refused}})
			continue
		}
		row := []page.Cell{name, {Main: count(s.Rate())}, {Main: count(s.Least)}, {Main: count(s.Most)},
			{Main: count(s.Predicted)}, {Main: units.Bytes(s.PinnedBytes)}, {Main: fmt.Sprint(s.Trials)}}
		if r.Result.StepSeconds > 0 {
			row = append(row, page.Cell{Main: page.Percent(s.DeviceWait)})
		}
		tried.Rows = append(tried.Rows, row)
	}
	list := []page.Table{tried}
	if refused.Rows != nil {
		list = append(list, refused)
	}
	return list
}

// count prints a rate, or a dash for one that is not known.
func count(v float64) string {
	if !rateOK(v) {
		return "–"
	}
	return units.Digits(v)
}

// short prints a rate where there is little room: "1234", "45.6k", "2.21M".
func short(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G"} {
		if !rateOK(v) || v < 9999.5 {
			break
		}
		v, unit = v/1e3, u
	}
	return count(v) + unit
}

// rateOK tells rates that a pipeline may have, in samples a second.
func rateOK(v float64) bool { return v > 0 && v < 1e15 }
