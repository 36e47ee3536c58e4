package linkreport

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed page.html.tmpl
var pageText string

//go:embed style.css
var styleText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is what the template shows.
type page struct {
	Style       template.CSS
	Title       string
	Description string
	Name        string
	Facts       []string
	Origin      []string
	Finding     string
	Shared      bool // the device shares the host's memory: there is no link
	Tiles       []tile
	Legend      []legendRow
	Bandwidth   []graph
	Advice      []advice
	Latency     []graph
	LatencyMax  string
	PinCost     template.HTML
	PinSize     string
	Tables      []numbers
	Missing     []missing
	Repeats     int
	LimitKnown  bool
}

type missing struct{ Path, Why string }

// Render writes the page. It fails only where w does.
func Render(w io.Writer, r *Report) error {
	p := page{
		Style:      template.CSS(styleText),
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
		LatencyMax: bytesText(latencySizes),
		PinCost:    r.pinCost(),
		PinSize:    bytesText(r.Bench.Size),
		Tables:     r.tables(),
		Repeats:    r.Bench.Repeats,
	}
	_, p.LimitKnown = r.limit("h2d")
	p.Title = p.Name + ": host-device link, measured by Pinion"
	p.Description = orElse(p.Finding, "Copies between host and device memory, measured.")
	for _, s := range r.Bench.Skipped {
		why := "unknown"
		if s.Why != nil {
			why = s.Why.Error()
		}
		p.Missing = append(p.Missing, missing{s.Path, why})
	}
	var text bytes.Buffer // so that a page is whole or not there
	if err := pageTemplate.Execute(&text, p); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
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
			sentence += ", " + percent(b.Median/l.rate) + " of what the link can carry"
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
		text = append(text, fmt.Sprintf("Pageable memory: %s GB/s through Pinion, %s %s.", gb(up), gb(plain), by))
	case ok:
		text = append(text, fmt.Sprintf("Pageable memory: %s GB/s %s.", gb(plain), by))
	}
	return strings.Join(text, " ")
}
