package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/plot"
	"github.com/pinion-gpu/pinion/internal/units"
)

// tierLines are the lines of the curves in the guide: those of the report of
// `pinion bench tier`, and the floor.
var tierLines = []struct {
	series plot.Series
	colour plot.Colour
}{
	{plot.Series{ID: "floor", Name: "floor"}, plot.Colour{Light: "#14181f", Dark: "#eef1f5"}},
	{plot.Series{ID: "announced", Name: "announced", Mark: "circle"}, plot.Colour{Light: "#003f9e", Dark: "#3f94fa"}},
	{plot.Series{ID: "store", Name: "store", Mark: "square"}, plot.Colour{Light: "#8a5a00", Dark: "#f2d873"}},
	{plot.Series{ID: "managed", Name: "managed", Mark: "triangle"}, plot.Colour{Light: "#777d85", Dark: "#939aa4"}},
	{plot.Series{ID: "copyanew", Name: "copy anew", Mark: "diamond"}, plot.Colour{Light: "#2b8fc0", Dark: "#b4f3ee"}},
}

// newestTier is the newest document about working sets on a device other than
// the host, with curves, and its run.
func newestTier(runs []*run) (r *run, f *tierFile) {
	for _, r := range runs {
		for _, f := range r.tiers {
			if !isHost(f.Device, f.DeviceName) && len(f.ratios()) > 2 {
				return r, f
			}
		}
	}
	return nil, nil
}

// ratios are the working sets of a document, in terms of the budget.
func (f *tierFile) ratios() (list []float64) {
	for _, r := range f.Rows {
		if !slices.Contains(list, r.Ratio) {
			list = append(list, r.Ratio)
		}
	}
	slices.Sort(list)
	return list
}

// picture is the file of the curves of one way of using arrays, below docs.
func (u tierUse) picture() string {
	name := "tier-" + strings.ReplaceAll(u.Access, " ", "-")
	if u.Write {
		name += "-written"
	}
	return filepath.Join("img", name+".svg")
}

// curves are the pictures of the guide: by path below docs, their text.
func curves(runs []*run) map[string]string {
	pictures := map[string]string{}
	if _, f := newestTier(runs); f != nil {
		for _, u := range f.uses() {
			if svg := f.plot(u); svg != "" {
				pictures[u.picture()] = svg
			}
		}
	}
	return pictures
}

// plot draws the bytes used a second over the working set.
func (f *tierFile) plot(u tierUse) string {
	label := func(x int64) string { return fmt.Sprintf("%gx", float64(x)/100) }
	p := plot.Plot{
		Title: u.String(), YName: "GB/s used", XName: "working set, of the budget", Label: label, Short: label, Log: true,
		Value: func(v float64) string { return units.Digits(v) + " GB/s" }, Tick: func(v float64) string { return fmt.Sprintf("%g", v) },
	}
	colours := map[string]plot.Colour{}
	for _, l := range tierLines {
		line := plot.Line{Series: l.series}
		for _, ratio := range f.ratios() {
			v := 0.0
			if l.series.ID == "floor" {
				v = f.floor(u, ratio)
			} else if r := f.find(u, ratio, l.series.Name); r != nil {
				v = r.GBPerS
			}
			if v > 0 {
				line.Points = append(line.Points, plot.Point{X: int64(math.Round(100 * ratio)), Y: v, Low: v, High: v})
			}
		}
		p.Add(line)
		colours[l.series.ID] = l.colour
	}
	return p.File(640, 320, colours)
}

// floor is the fastest that a link lets a schedule be, in GB/s used; 0 where
// everything fits.
func (f *tierFile) floor(u tierUse, ratio float64) float64 {
	for _, r := range f.Rows {
		if r.tierUse == u && r.Ratio == ratio && r.Least > 0 {
			return float64(r.Used) / float64(r.Least) * f.H2D
		}
	}
	return 0
}

// tierGuide is what the guide shows of the newest run.
func tierGuide(runs []*run) string {
	r, f := newestTier(runs)
	if f == nil {
		return "\nNo run on a GPU has been recorded yet. `pinion bench tier --report tier.html` draws the curves of your machine.\n\n"
	}
	var w strings.Builder
	fmt.Fprintf(&w, "\n%s (run %s): a budget of %s, arrays of %s, a link of %s GB/s to the device and %s back. "+
		"The floor is what the fewest bytes of any schedule take on that link; what fits has none.\n",
		plain(f.DeviceName), plain(r.name), units.Bytes(f.Budget), units.Bytes(f.Array), number(f.H2D), number(f.D2H))
	largest := f.ratios()[len(f.ratios())-1]
	head := []string{fmt.Sprintf("GB/s used, %gx the budget", largest)}
	for _, u := range f.uses() {
		head = append(head, ">"+u.String())
		if svg := f.plot(u); svg != "" {
			fmt.Fprintf(&w, "\n![%s](../%s)\n", f.alt(u, largest), filepath.ToSlash(u.picture()))
		}
	}
	t := newTable(head...)
	for _, by := range append([]string{"floor"}, tierHolders...) {
		cells, any := []string{by}, false
		for _, u := range f.uses() {
			v := 0.0
			if by == "floor" {
				v = f.floor(u, largest)
			} else if r := f.find(u, largest, by); r != nil {
				v = r.GBPerS
			}
			cell := ""
			if v > 0 {
				cell, any = number(v), true
			}
			cells = append(cells, cell)
		}
		if any {
			t.add(cells...)
		}
	}
	t.write(&w)
	w.WriteByte('\n')
	return w.String()
}

// alt says what the curves of u show, for those who cannot see them.
func (f *tierFile) alt(u tierUse, largest float64) string {
	var parts []string
	for _, l := range tierLines {
		if r := f.find(u, largest, l.series.Name); r != nil {
			parts = append(parts, fmt.Sprintf("%s %s", l.series.Name, number(r.GBPerS)))
		}
	}
	return plain(fmt.Sprintf("Curves over the working set, %s. GB/s at %gx the budget: %s.", u, largest, strings.Join(parts, ", ")))
}
