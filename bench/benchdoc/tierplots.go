package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/plot"
	"github.com/pinion-gpu/pinion/internal/tierdoc"
	"github.com/pinion-gpu/pinion/internal/units"
)

// floorLine is the line of the curves that is not measured.
var floorLine = plot.Series{ID: "floor", Name: "floor"}

// tierColours are those of the curves in the guide, by ID; lines without one are not
// drawn there.
var tierColours = map[string]plot.Colour{
	"floor":     {Light: "#14181f", Dark: "#eef1f5"},
	"announced": {Light: "#003f9e", Dark: "#3f94fa"},
	"store":     {Light: "#8a5a00", Dark: "#f2d873"},
	"managed":   {Light: "#777d85", Dark: "#939aa4"},
	"copyanew":  {Light: "#2b8fc0", Dark: "#b4f3ee"},
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
func picture(u tierdoc.Use) string {
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
				pictures[picture(u)] = svg
			}
		}
	}
	return pictures
}

// plot draws the bytes used a second over the working set.
func (f *tierFile) plot(u tierdoc.Use) string {
	p := tierdoc.Curves(u)
	for _, series := range append([]plot.Series{floorLine}, tierdoc.Series()...) {
		if _, drawn := tierColours[series.ID]; !drawn {
			continue
		}
		line := plot.Line{Series: series}
		for _, ratio := range f.ratios() {
			v := 0.0
			if series.ID == floorLine.ID {
				v = f.floor(u, ratio)
			} else if r := f.find(u, ratio, series.Name); r != nil {
				v = r.GBPerS
			}
			if v > 0 {
				line.Points = append(line.Points, tierdoc.Point(ratio, v))
			}
		}
		p.Add(line)
	}
	return p.File(640, 320, tierColours)
}

// floor is the fastest that a link lets a schedule be, in GB/s used; 0 where
// everything fits. The row with the most uses tells it best.
func (f *tierFile) floor(u tierdoc.Use, ratio float64) (gbPerS float64) {
	uses := int64(0)
	for _, r := range f.Rows {
		if r.Use == u && r.Ratio == ratio && r.LeastBytes > 0 && r.Uses > uses {
			uses, gbPerS = r.Uses, float64(r.UsedBytes)/float64(r.LeastBytes)*f.H2DGBPerS
		}
	}
	return gbPerS
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
		plain(f.DeviceName), plain(r.name), units.Bytes(f.BudgetBytes), units.Bytes(f.ArrayBytes), number(f.H2DGBPerS), number(f.D2HGBPerS))
	largest := f.ratios()[len(f.ratios())-1]
	head := []string{fmt.Sprintf("GB/s used, %gx the budget", largest)}
	for _, u := range f.uses() {
		head = append(head, ">"+u.String())
		if svg := f.plot(u); svg != "" {
			fmt.Fprintf(&w, "\n![%s](../%s)\n", f.alt(u, largest), filepath.ToSlash(picture(u)))
		}
	}
	t := newTable(head...)
	for _, by := range append([]string{"floor"}, tierdoc.Holders()...) {
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
func (f *tierFile) alt(u tierdoc.Use, largest float64) string {
	var parts []string
	for _, s := range tierdoc.Series() {
		if r := f.find(u, largest, s.Name); r != nil {
			parts = append(parts, fmt.Sprintf("%s %s", s.Name, number(r.GBPerS)))
		}
	}
	return plain(fmt.Sprintf("Curves over the working set, %s. GB/s at %gx the budget: %s.", u, largest, strings.Join(parts, ", ")))
}
