package linkreport

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/internal/units"
)

//go:embed page.html.tmpl
var pageText string

//go:embed style.css
var styleText string

var pageTemplate = page.Parse(pageText)

// view is what the template shows.
type view struct {
	page.Head
	Name       string
	Facts      []string
	Origin     []string
	Finding    string
	Shared     bool // the device shares the host's memory: there is no link
	Tiles      []page.Tile
	Legend     []page.LegendRow
	Bandwidth  []page.Graph
	Advice     []advice
	Latency    []page.Graph
	LatencyMax string
	PinCost    template.HTML
	PinSize    string
	Tables     []page.Table
	Missing    []missing
	Repeats    int
	LimitKnown bool
}

type missing struct{ Path, Why string }

// Render writes the page. It fails only where w does.
func Render(w io.Writer, r *Report) error {
	v := view{
		Name:       orElse(r.Device.Name, "Device"),
		Facts:      r.facts(),
		Origin:     r.origin(),
		Finding:    r.finding(),
		Shared:     r.Device.Integrated,
		Tiles:      r.tiles(),
		Legend:     r.legend(),
		Bandwidth:  r.bandwidth(),
		Advice:     r.advice(),
		Latency:    r.latency(),
		LatencyMax: units.Bytes(latencySizes),
		PinCost:    r.pinCost(),
		PinSize:    units.Bytes(r.Bench.PinSize),
		Tables:     r.tables(),
		Repeats:    r.Bench.Repeats,
	}
	_, v.LimitKnown = r.limit("h2d")
	v.Head = page.Head{
		Style:       page.Style(styleText),
		Title:       v.Name + ": host-device link, measured by Pinion",
		Description: orElse(v.Finding, "Measured copies between host and device memory."),
	}
	for _, s := range r.Bench.Skipped {
		why := "unknown"
		if s.Why != nil {
			why = s.Why.Error()
		}
		v.Missing = append(v.Missing, missing{s.Path, why})
	}
	return page.Render(w, pageTemplate, v)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// facts name the machine.
func (r *Report) facts() (list []string) {
	switch {
	case r.Device.Integrated:
		list = append(list, "no link: shares the host’s memory")
	case r.Device.Link.Kind == "":
		list = append(list, "link unknown")
	default:
		list = append(list, r.Device.Link.String())
	}
	if r.Device.DriverVersion != "" {
		list = append(list, "driver for CUDA "+r.Device.DriverVersion)
	}
	cpus := fmt.Sprintf("%d CPUs", r.CPUs)
	if r.CPUs == 1 {
		cpus = "1 CPU"
	}
	switch {
	case r.CPU != "" && r.CPUs > 0:
		list = append(list, r.CPU+", "+cpus)
	case r.CPU != "":
		list = append(list, r.CPU)
	case r.CPUs > 0:
		list = append(list, cpus)
	}
	if r.Platform != "" {
		list = append(list, r.Platform)
	}
	return list
}

// origin says when and by which code.
func (r *Report) origin() (list []string) {
	if r.MeasuredAt != "" {
		list = append(list, "measured "+r.MeasuredAt)
	}
	if r.Commit != "" {
		commit, rest, _ := strings.Cut(r.Commit, " ")
		if len(commit) == 40 {
			commit = commit[:12]
		}
		list = append(list, strings.TrimSpace("commit "+commit+" "+rest))
	}
	return list
}

// finding is the page in a sentence or two.
func (r *Report) finding() string {
	var text []string
	if b, ok := r.bulk("pinned", "h2d"); ok {
		sentence := "Pinned memory reaches the device at " + gb(b.Median) + " GB/s"
		if l, ok := r.limit("h2d"); ok {
			sentence += ", " + page.Percent(b.Median/l.Rate) + " of what the link can carry"
		}
		text = append(text, sentence+".")
	}
	up, _, pinion := r.pinion()
	plain, _, ok := r.rates("pageable", "pageable")
	by := "by the driver’s own copy"
	if r.Device.Integrated {
		by = "by a plain copy"
	}
	switch {
	case ok && pinion:
		text = append(text, fmt.Sprintf("Pageable memory gets %s GB/s through Pinion and %s %s.", gb(up), gb(plain), by))
	case ok:
		text = append(text, fmt.Sprintf("Pageable memory gets %s GB/s %s.", gb(plain), by))
	}
	return strings.Join(text, " ")
}
