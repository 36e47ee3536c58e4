package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// hold is what the files of bench/loop, and of its peers, are about.
const hold = "hold"

// holdFile is what bench/loop prints, or a peer of it.
type holdFile struct {
	provenance
	Peer    string    `json:"peer"`
	Machine string    `json:"machine"`
	Repeats int       `json:"repeats"`
	Rows    []holdRow `json:"rows"`
	Skipped []struct {
		Name string `json:"name"`
		By   string `json:"by"`
		Why  string `json:"why"`
	} `json:"skipped"`
}

type holdRow struct {
	peerRow
	By     string   `json:"by"`             // who gave the memory
	Slower *float64 `json:"slower_percent"` // than preallocated memory
}

func (f *holdFile) check() error {
	var errs []error
	for _, r := range f.Rows {
		errs = append(errs, r.check())
		if r.By == "" {
			errs = append(errs, fmt.Errorf("%s: nobody gave the memory", r.Name))
		}
	}
	return errors.Join(errs...)
}

// text prints a value in the row's unit; short times in nanoseconds.
func (r *holdRow) text(v float64) string {
	if r.Unit == "ns" {
		return nanoseconds(v)
	}
	return r.peerRow.text(v)
}

// nanoseconds prints a time that is short, as a rule.
func nanoseconds(ns float64) string {
	if ns < 999.5 {
		return number(ns) + " ns"
	}
	return duration(ns * 1e-9)
}

// program says who gave the memory of a row of f.
func (f *holdFile) program(r holdRow) string {
	if f.Commit != "" {
		return r.By
	}
	return f.Peer + ": " + r.By
}

// writeHold writes all files of a run as one table, the rows of one name
// together: of several files of a program the median of the medians, with the
// least and the most of all.
func writeHold(w *strings.Builder, files []*holdFile) {
	if len(files) == 0 {
		return
	}
	// Pinion's first, whose names of rows lead.
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b *holdFile) int { return pinionFirst(a.Commit, b.Commit) })
	type key struct{ name, program string }
	var names, stems []string
	var keys []key
	rows := map[key][]holdRow{}
	for _, f := range files {
		stems = append(stems, f.file)
		for _, r := range f.Rows {
			k := key{r.Name, f.program(r)}
			if !slices.Contains(names, r.Name) {
				names = append(names, r.Name)
			}
			if rows[k] == nil {
				keys = append(keys, k)
			}
			rows[k] = append(rows[k], r)
		}
	}
	slices.SortStableFunc(keys, func(a, b key) int {
		return cmp.Compare(slices.Index(names, a.name), slices.Index(names, b.name))
	})

	first := files[0]
	origin := ""
	if first.Commit != "" {
		origin = " " + first.origin() + "."
	}
	fmt.Fprintf(w, "\n### %s: memory for a while\n\n", strings.Join(stems, ", "))
	fmt.Fprintf(w, "%s. %d interleaved repeats.%s From %s on. Loops are compared with preallocated memory of the same program.\n",
		plain(first.Machine), first.Repeats, origin, plain(first.MeasuredAt))
	t := newTable("", "by", ">runs", ">median", ">min", ">max", ">slower than preallocated")
	for _, k := range keys {
		var medians, least, most, slower []float64
		for _, r := range rows[k] {
			medians = append(medians, r.Value)
			least, most = append(least, r.least()), append(most, r.most())
			if r.Slower != nil {
				slower = append(slower, *r.Slower)
			}
		}
		r := rows[k][0]
		than := ""
		if len(slower) > 0 {
			than = percent(median(slower) / 100)
		}
		t.add(plain(k.name), plain(k.program), fmt.Sprint(len(medians)), r.text(median(medians)),
			r.text(slices.Min(least)), r.text(slices.Max(most)), than)
	}
	t.write(w)
	for _, f := range files {
		for _, s := range f.Skipped {
			fmt.Fprintf(w, "\nNot measured: %s by %s: %s\n", plain(s.Name), plain(s.By), plain(s.Why))
		}
	}
}

// pinionFirst orders files by their commits: peers have none.
func pinionFirst(a, b string) int { return cmp.Compare(min(len(b), 1), min(len(a), 1)) }

// median does not change the order of values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
