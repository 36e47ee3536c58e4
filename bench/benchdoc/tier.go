package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/tierdoc"
	"github.com/pinion-gpu/pinion/internal/units"
)

// tierFile is what `pinion bench tier --json` prints.
type tierFile struct {
	provenance
	tierdoc.Document
	NotAvailable []notAvailable `json:"not_available"`
}

func (f *tierFile) check() error {
	var errs []error
	if f.BudgetBytes <= 0 || f.ArrayBytes <= 0 || f.H2DGBPerS <= 0 || f.D2HGBPerS <= 0 {
		errs = append(errs, fmt.Errorf("a budget of %d bytes, arrays of %d, a link of %g and %g GB/s are no result", f.BudgetBytes, f.ArrayBytes, f.H2DGBPerS, f.D2HGBPerS))
	}
	for _, r := range f.Rows {
		if r.Access == "" || r.Ratio <= 0 || r.UsedBytes <= 0 || r.Seconds <= 0 || r.GBPerS <= 0 || r.FilledBytes < 0 || r.WrittenBytes < 0 || r.LeastBytes < 0 || r.LRUBytes < r.LeastBytes {
			errs = append(errs, fmt.Errorf("%s of %gx by %q: %+v is no result", r.Access, r.Ratio, r.By, r))
		}
		if !slices.Contains(tierdoc.Holders(), r.By) {
			errs = append(errs, fmt.Errorf("%s of %gx is held by %q", r.Access, r.Ratio, r.By))
		}
	}
	return errors.Join(errs...)
}

// uses lists the ways of using arrays, in the order of the rows.
func (f *tierFile) uses() (list []tierdoc.Use) {
	for _, r := range f.Rows {
		if !slices.Contains(list, r.Use) {
			list = append(list, r.Use)
		}
	}
	return list
}

// find returns the row of a use, a working set and who holds it, or nil.
func (f *tierFile) find(u tierdoc.Use, ratio float64, by string) *tierdoc.Row {
	for i, r := range f.Rows {
		if r.Use == u && r.Ratio == ratio && r.By == by {
			return &f.Rows[i]
		}
	}
	return nil
}

// write writes a table for each way of using arrays, a row for each working set.
func (f *tierFile) write(w *strings.Builder) {
	fmt.Fprintf(w, "\n### %s: working sets larger than a budget of device memory\n\n", f.file)
	fmt.Fprintf(w, "%s. A budget of %s, arrays of %s. Pinned memory, array by array: %s GB/s to the device, %s back. %s, %s. "+
		"GB/s are those that were used; the floor is the fewest bytes that any schedule brings in, at the link's rate. "+
		"Misses are the bytes that came in, of those used; the least is the best schedule's (Belady's).\n",
		plain(f.DeviceName), units.Bytes(f.BudgetBytes), units.Bytes(f.ArrayBytes), number(f.H2DGBPerS), number(f.D2HGBPerS), f.origin(), f.MeasuredAt)
	for _, u := range f.uses() {
		f.writeUse(w, u)
	}
	writeNotAvailable(w, f.NotAvailable)
	if said := f.Pressure.Sentence(f.BudgetBytes); said != "" {
		fmt.Fprintf(w, "\n%s\n", said)
	}
}

func (f *tierFile) writeUse(w *strings.Builder, u tierdoc.Use) {
	var ratios []float64
	var holders []string
	for _, r := range f.Rows {
		if r.Use == u && !slices.Contains(ratios, r.Ratio) {
			ratios = append(ratios, r.Ratio)
		}
	}
	for _, by := range tierdoc.Holders() {
		if slices.ContainsFunc(f.Rows, func(r tierdoc.Row) bool { return r.Use == u && r.By == by }) {
			holders = append(holders, by)
		}
	}
	slices.Sort(ratios)
	head := []string{u.String()}
	for _, by := range holders {
		head = append(head, ">"+by)
		if u.Write {
			head = append(head, ">moved")
		}
	}
	head = append(head, ">floor")
	for _, by := range holders {
		if by != tierdoc.CopyAnew && by != tierdoc.Layers {
			head = append(head, ">misses, "+by)
		}
	}
	t := newTable(append(head, ">least", ">LRU")...)
	for _, ratio := range ratios {
		cells := []string{fmt.Sprintf("%gx", ratio)}
		var some *tierdoc.Row // with the most uses
		var misses []string
		for _, by := range holders {
			r := f.find(u, ratio, by)
			rate, moved, share := "", "", ""
			if r != nil {
				rate, moved, share = number(r.GBPerS), number(r.MovedGBPerS), r.Share(r.FilledBytes)
				if some == nil || r.Uses > some.Uses {
					some = r // what the best schedule does differs a little from round to round
				}
			}
			if cells = append(cells, rate); u.Write {
				cells = append(cells, moved)
			}
			if by != tierdoc.CopyAnew && by != tierdoc.Layers {
				misses = append(misses, share)
			}
		}
		floor := ""
		if v := f.floor(u, ratio); v > 0 {
			floor = number(v)
		}
		cells = append(append(cells, floor), misses...)
		t.add(append(cells, some.Share(some.LeastBytes), some.Share(some.LRUBytes))...)
	}
	t.write(w)
}
