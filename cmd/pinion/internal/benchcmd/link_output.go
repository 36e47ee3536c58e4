package benchcmd

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

type linkOutput struct {
	provenance.Record
	Link         *cli.LinkRow `json:"link,omitempty"`
	SizeBytes    int64        `json:"size_bytes"`
	SizeReason   string       `json:"size_reason,omitempty"` // why it is less than the default
	Repeats      int          `json:"repeats"`
	InitSeconds  float64      `json:"initialisation_seconds"`
	Bulk         []bulkRow    `json:"bulk"`
	SmallCopies  []timingRow  `json:"small_copies"`
	PinBytes     int64        `json:"pin_bytes"` // of each row of PinCost
	PinCost      []timingRow  `json:"pin_cost"`
	NotAvailable []skippedRow `json:"not_available"`
	Curves       []curveRow   `json:"curves,omitempty"`
	Choice       []choiceRow  `json:"choice,omitempty"`
	Report       string       `json:"report_file,omitempty"`
}

type bulkRow struct {
	Path      string  `json:"path"`
	Direction string  `json:"direction"`
	GBPerS    float64 `json:"gb_per_s"`
	MinGBPerS float64 `json:"min_gb_per_s"`
	MaxGBPerS float64 `json:"max_gb_per_s"`
	OfBest    float64 `json:"of_best_fraction"`
}

type timingRow struct {
	What       string  `json:"what"`
	Seconds    float64 `json:"seconds"`
	MinSeconds float64 `json:"min_seconds"`
	MaxSeconds float64 `json:"max_seconds"`
}

type skippedRow struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// curveRow is one path in one direction at one size.
type curveRow struct {
	Path       string  `json:"path"`
	Direction  string  `json:"direction"`
	Bytes      int64   `json:"bytes"`
	Seconds    float64 `json:"seconds"`
	MinSeconds float64 `json:"min_seconds"`
	MaxSeconds float64 `json:"max_seconds"`
	GBPerS     float64 `json:"gb_per_s"`
	MinGBPerS  float64 `json:"min_gb_per_s"`
	MaxGBPerS  float64 `json:"max_gb_per_s"`
}

// choiceRow is what Pinion's choice for pageable memory took, beside the
// better of the paths.
type choiceRow struct {
	Bytes         int64   `json:"bytes"`
	Direction     string  `json:"direction"`
	ChosenSeconds float64 `json:"chosen_seconds"`
	BestSeconds   float64 `json:"best_seconds"`
	BestPath      string  `json:"best_path"`
	Ratio         float64 `json:"choice_ratio"`
}

func newLinkOutput(r *linkRun) *linkOutput {
	info := r.info
	out := &linkOutput{
		Record:    r.Record.On(info.ID, info.Name),
		Link:      cli.NewLinkRow(info.Link),
		SizeBytes: r.Size, SizeReason: r.SizeReason, PinBytes: r.PinSize, Repeats: r.Repeats, InitSeconds: r.opened.Seconds(),
		Bulk: []bulkRow{}, SmallCopies: timingRows(r.Small), PinCost: timingRows(r.Pin), NotAvailable: []skippedRow{},
	}
	for _, b := range r.Bulk {
		out.Bulk = append(out.Bulk, bulkRow{b.Path, b.Direction, b.Median / 1e9, b.Least / 1e9, b.Most / 1e9, b.OfBest})
	}
	for _, s := range r.Skipped {
		out.NotAvailable = append(out.NotAvailable, skippedRow{s.Path, s.Why.Error()})
	}
	for _, c := range r.Curves {
		for _, p := range c.Points {
			median, least, most := p.Rates()
			out.Curves = append(out.Curves, curveRow{c.Path, c.Direction, p.Bytes,
				p.Median.Seconds(), p.Least.Seconds(), p.Most.Seconds(), median / 1e9, least / 1e9, most / 1e9})
		}
	}
	for _, c := range r.Choice {
		out.Choice = append(out.Choice, choiceRow{c.Bytes, c.Direction, c.Chosen.Seconds(), c.Best.Seconds(), c.BestPath, c.Ratio})
	}
	return out
}

// hideCurves leaves what a page shows better out of the text.
func (o *linkOutput) hideCurves() { o.Curves, o.Choice = nil, nil }

// printNotAvailable prints each reason once, after all that it is the reason for.
func printNotAvailable(w io.Writer, rows []skippedRow) {
	paths := map[string][]string{}
	for _, s := range rows {
		paths[s.Reason] = append(paths[s.Reason], s.Name)
	}
	for _, s := range rows {
		if list := paths[s.Reason]; list != nil {
			fmt.Fprintf(w, "\nNot available: %s: %s\n", strings.Join(list, "; "), s.Reason)
			delete(paths, s.Reason)
		}
	}
}

func timingRows(list []linkbench.Timing) []timingRow {
	rows := []timingRow{}
	for _, t := range list {
		rows = append(rows, timingRow{t.What, t.Median.Seconds(), t.Least.Seconds(), t.Most.Seconds()})
	}
	return rows
}

func (o *linkOutput) print(w io.Writer) {
	fmt.Fprintf(w, "%s  %s", o.Device, o.DeviceName)
	if o.Link != nil {
		fmt.Fprintf(w, "  %s", o.Link)
	}
	fmt.Fprintf(w, "\n%s a copy, median of %d interleaved repeats\n", units.Bytes(o.SizeBytes), o.Repeats)
	if o.SizeReason != "" {
		fmt.Fprintf(w, "Smaller than the default: %s\n", o.SizeReason)
	}
	fmt.Fprintln(w)

	t := texttable.New("PATH", "DIRECTION", ">GB/s", ">MIN", ">MAX", ">OF BEST")
	for _, b := range o.Bulk {
		t.Add(b.Path, directions[b.Direction], cli.GBPerS(b.GBPerS), cli.GBPerS(b.MinGBPerS), cli.GBPerS(b.MaxGBPerS), fmt.Sprintf("%.0f %%", 100*b.OfBest))
	}
	t.Write(w)

	t = texttable.New("TIME", ">MEDIAN", ">MIN", ">MAX")
	t.Add("open the device (once)", units.Seconds(o.InitSeconds), "", "")
	for _, r := range o.SmallCopies {
		t.Add(r.What+", waited for", units.Seconds(r.Seconds), units.Seconds(r.MinSeconds), units.Seconds(r.MaxSeconds))
	}
	for _, r := range o.PinCost {
		t.Add(fmt.Sprintf("pin %s: %s", units.Bytes(o.PinBytes), r.What), units.Seconds(r.Seconds), units.Seconds(r.MinSeconds), units.Seconds(r.MaxSeconds))
	}
	fmt.Fprintln(w)
	t.Write(w)
	printNotAvailable(w, o.NotAvailable)
	for _, direction := range []string{"h2d", "d2h"} {
		o.printCurves(w, direction)
	}
	if o.Report != "" {
		fmt.Fprintf(w, "\nReport: %s\n", o.Report)
	}
}

// printCurves prints a row for each size and a column for each path.
func (o *linkOutput) printCurves(w io.Writer, direction string) {
	head := []string{">SIZE"}
	var paths []string
	var sizes []int64
	rates := map[string]map[int64]float64{}
	for _, c := range o.Curves {
		if c.Direction != direction {
			continue
		}
		if rates[c.Path] == nil {
			rates[c.Path] = map[int64]float64{}
			paths, head = append(paths, c.Path), append(head, ">"+strings.ToUpper(c.Path))
		}
		rates[c.Path][c.Bytes] = c.GBPerS
		sizes = append(sizes, c.Bytes)
	}
	if paths == nil {
		return
	}
	slices.Sort(sizes)
	t := texttable.New(append(head, ">CHOSEN / BEST")...)
	for _, n := range slices.Compact(sizes) {
		row := []string{units.Bytes(n)}
		for _, path := range paths {
			cell := ""
			if rate, there := rates[path][n]; there {
				cell = units.Digits(rate)
			}
			row = append(row, cell)
		}
		for _, c := range o.Choice {
			if c.Bytes == n && c.Direction == direction {
				row = append(row, fmt.Sprintf("%.2f", c.Ratio))
			}
		}
		t.Add(row...)
	}
	fmt.Fprintf(w, "\nGB/s, %s\n", directions[direction])
	t.Write(w)
}

var directions = map[string]string{"h2d": "host to device", "d2h": "device to host", "both": "both at once", "d2d": "inside the device"}
