package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

// tierFile is what `pinion bench tier --json` prints.
type tierFile struct {
	provenance
	Budget       int64          `json:"budget_bytes"`
	Array        int64          `json:"array_bytes"`
	H2D          float64        `json:"h2d_gb_per_s"`
	D2H          float64        `json:"d2h_gb_per_s"`
	Rows         []tierRow      `json:"rows"`
	Pressure     tierPressure   `json:"pressure"`
	NotAvailable []notAvailable `json:"not_available"`
}

type tierRow struct {
	tierUse
	Ratio   float64 `json:"working_set_ratio"`
	By      string  `json:"by"`
	Used    int64   `json:"used_bytes"`
	Filled  int64   `json:"filled_bytes"`
	Written int64   `json:"written_bytes"`
	Least   int64   `json:"least_filled_bytes"`
	LRU     int64   `json:"lru_filled_bytes"`
	Seconds float64 `json:"seconds"`
	GBPerS  float64 `json:"gb_per_s"`
	Moved   float64 `json:"moved_gb_per_s"`
	Link    float64 `json:"link_fraction"`
	Floor   float64 `json:"floor_fraction"`
}

// tierUse is a way of using arrays.
type tierUse struct {
	Access string `json:"access"`
	Write  bool   `json:"write"`
}

func (u tierUse) String() string {
	if u.Write {
		return u.Access + ", every byte written"
	}
	return u.Access
}

type tierPressure struct {
	Arrays    int     `json:"arrays"`
	Bytes     int64   `json:"bytes"`
	Touches   int     `json:"touches"`
	Allocs    int     `json:"allocs"`
	Failures  int     `json:"failures"`
	Reclaimed int64   `json:"reclaimed_bytes"`
	Seconds   float64 `json:"seconds"`
}

// Who holds the arrays, in the order of the columns.
var tierHolders = []string{"announced", "layers", "store", "managed", "files", "copy anew"}

func (f *tierFile) check() error {
	var errs []error
	if f.Budget <= 0 || f.Array <= 0 || f.H2D <= 0 || f.D2H <= 0 {
		errs = append(errs, fmt.Errorf("a budget of %d bytes, arrays of %d, a link of %g and %g GB/s are no result", f.Budget, f.Array, f.H2D, f.D2H))
	}
	for _, r := range f.Rows {
		if r.Access == "" || r.Ratio <= 0 || r.Used <= 0 || r.Seconds <= 0 || r.GBPerS <= 0 || r.Filled < 0 || r.Written < 0 || r.Least < 0 || r.LRU < r.Least {
			errs = append(errs, fmt.Errorf("%s of %gx by %q: %+v is no result", r.Access, r.Ratio, r.By, r))
		}
		if !slices.Contains(tierHolders, r.By) {
			errs = append(errs, fmt.Errorf("%s of %gx is held by %q", r.Access, r.Ratio, r.By))
		}
	}
	return errors.Join(errs...)
}

// uses lists the ways of using arrays, in the order of the rows.
func (f *tierFile) uses() (list []tierUse) {
	for _, r := range f.Rows {
		if !slices.Contains(list, r.tierUse) {
			list = append(list, r.tierUse)
		}
	}
	return list
}

// find returns the row of a use, a working set and who holds it, or nil.
func (f *tierFile) find(u tierUse, ratio float64, by string) *tierRow {
	for i, r := range f.Rows {
		if r.tierUse == u && r.Ratio == ratio && r.By == by {
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
		plain(f.DeviceName), units.Bytes(f.Budget), units.Bytes(f.Array), number(f.H2D), number(f.D2H), f.origin(), f.MeasuredAt)
	for _, u := range f.uses() {
		f.writeUse(w, u)
	}
	writeNotAvailable(w, f.NotAvailable)
	if p := f.Pressure; p.Arrays > 0 {
		fmt.Fprintf(w, "\nA pool of %s, %s of arrays in it, touched %s at random, and %s beside them: %s; %s left the device for them.\n",
			units.Bytes(f.Budget), units.Bytes(p.Bytes), units.Count(p.Touches, "time"), units.Count(p.Allocs, "plain allocation"),
			units.Count(p.Failures, "failure"), units.Bytes(p.Reclaimed))
	}
}

func (f *tierFile) writeUse(w *strings.Builder, u tierUse) {
	var ratios []float64
	var holders []string
	for _, r := range f.Rows {
		if r.tierUse == u && !slices.Contains(ratios, r.Ratio) {
			ratios = append(ratios, r.Ratio)
		}
	}
	for _, by := range tierHolders {
		if slices.ContainsFunc(f.Rows, func(r tierRow) bool { return r.tierUse == u && r.By == by }) {
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
		if by != "copy anew" && by != "layers" {
			head = append(head, ">misses, "+by)
		}
	}
	t := newTable(append(head, ">least", ">LRU")...)
	for _, ratio := range ratios {
		cells := []string{fmt.Sprintf("%gx", ratio)}
		var some *tierRow
		var misses []string
		for _, by := range holders {
			r := f.find(u, ratio, by)
			rate, moved, share := "", "", ""
			if r != nil {
				some, rate, moved, share = r, number(r.GBPerS), number(r.Moved), units.Percent(float64(r.Filled)/float64(r.Used))
			}
			if cells = append(cells, rate); u.Write {
				cells = append(cells, moved)
			}
			if by != "copy anew" && by != "layers" {
				misses = append(misses, share)
			}
		}
		floor := ""
		if some.Least > 0 {
			floor = number(float64(some.Used) / float64(some.Least) * f.H2D)
		}
		cells = append(append(cells, floor), misses...)
		t.add(append(cells, units.Percent(float64(some.Least)/float64(some.Used)), units.Percent(float64(some.LRU)/float64(some.Used)))...)
	}
	t.write(w)
}
