package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/internal/units"
)

// What files with several programs' ways of doing the same are about.
const (
	hold    = "hold"    // of bench/loop and its peers
	feeding = "feeding" // of bench/feeding and its peers
	folder  = "folder"  // of bench/folder and its peer
	weights = "weights" // of bench/weights and its peer

	outofcore = "outofcore" // of bench/outofcore and its peer
	steps     = "step"      // of pinion bench step and its peer
	ranked    = "ranks"     // of bench/ranks
	traced    = "timeline"  // of bench/trace_cost.py
)

// comparedKinds say of each what it is called, what a reader has to know, and
// what its last column is.
var comparedKinds = map[string]struct {
	title, note, column string
	last                func(rows []comparedRow) string
}{
	hold: {"memory for a while", "Loops are compared with preallocated memory of the same program.",
		">slower than preallocated", slowerText},
	feeding: {"feeding a device", "Rates are those of a full pipeline; a row in per cent of another compares the two repeat by repeat.",
		"target", targetText},
	weights: {"a checkpoint into device memory", "From before the header is read until all tensors are there.", "target", targetText},
	outofcore: {"products larger than device memory", "The floor of a product is the larger of its time in core and of the fewest bytes that any blocking must move.",
		"of the floor", floorText},
	steps:  {"training steps", "Memory is the most that was allocated.", "target", targetText},
	ranked: {"steps of several ranks", "Each rank has a device. Simulated rows are made of the times of tasks, and of how fast the ranks are together.", "target", targetText},
	traced: {"what --trace costs pinion feed", "The time of a batch with it over that without, of two runs next to each other; the pace of a run is the median over its epochs but the first two.",
		"target", targetText},
	folder: {"a folder of a million files", "Rows that begin with \"first\" have cold caches.", "target", targetText},
}

// comparedFile is such a file: of Pinion if it has a commit.
type comparedFile struct {
	provenance
	Peer    string         `json:"peer"`
	What    string         `json:"what"`
	Repeats int            `json:"repeats"`
	Rows    []comparedRow  `json:"rows"`
	Missing []notAvailable `json:"not_available"`

	// Of documents of pinion bench step.
	Model string       `json:"model"`
	Steps []budgetStep `json:"steps"`
}

type comparedRow struct {
	peerRow
	By      string   `json:"by"`              // who did it, or gave the memory
	Slower  *float64 `json:"slower_fraction"` // than preallocated memory
	AtLeast *float64 `json:"at_least"`        // what it has to reach
	AtMost  *float64 `json:"at_most"`
	outOfCore
}

func (f *comparedFile) check() error {
	var errs []error
	for _, r := range f.Rows {
		errs = append(errs, r.check())
		if r.By == "" && f.What != folder {
			errs = append(errs, fmt.Errorf("%s: by nobody", r.Name))
		}
	}
	return errors.Join(errs...)
}

// text prints a value in the row's unit; short times in nanoseconds.
func (r *comparedRow) text(v float64) string {
	if r.Unit == "ns" {
		return nanoseconds(v)
	}
	return r.peerRow.text(v)
}

// slowerText is how much slower than preallocated memory a way is.
func slowerText(rows []comparedRow) string {
	var slower []float64
	for _, r := range rows {
		if r.Slower != nil {
			slower = append(slower, *r.Slower)
		}
	}
	if slower == nil {
		return ""
	}
	return units.Percent(stats.Median(slower))
}

// targetText is what a row has to reach, and whether it does.
func targetText(rows []comparedRow) string {
	var values []float64
	for _, r := range rows {
		values = append(values, r.Value)
	}
	r, v := rows[0], stats.Median(values)
	var bound string
	var reached bool
	switch {
	case r.AtLeast != nil:
		bound, reached = "at least "+r.text(*r.AtLeast), v >= *r.AtLeast
	case r.AtMost != nil:
		bound, reached = "at most "+r.text(*r.AtMost), v <= *r.AtMost
	default:
		return ""
	}
	if reached {
		return bound + ": reached"
	}
	return bound + ": missed"
}

// nanoseconds prints a time that is short, as a rule.
func nanoseconds(ns float64) string {
	if ns < 999.5 {
		return number(ns) + " ns"
	}
	return duration(ns * 1e-9)
}

// program says who did what a row of f is about.
func (f *comparedFile) program(r comparedRow) string {
	if r.By == "" {
		return f.Peer
	}
	if f.Commit != "" {
		return r.By
	}
	return f.Peer + ": " + r.By
}

// writeCompared writes all files of a run of one kind as one table, the rows of
// one name and unit together: of several files of a program the median of the medians,
// with the least and the most of all.
func writeCompared(w *strings.Builder, kind string, files []*comparedFile) {
	if len(files) == 0 {
		return
	}
	// Pinion's first, whose names of rows lead.
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b *comparedFile) int { return pinionFirst(a.Commit, b.Commit) })
	type key struct{ name, unit, program string }
	var names, stems []string
	var keys []key
	rows := map[key][]comparedRow{}
	for _, f := range files {
		stems = append(stems, f.file)
		for _, r := range f.Rows {
			k := key{r.Name, r.Unit, f.program(r)}
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

	first, about := files[0], comparedKinds[kind]
	origin := ""
	if first.Commit != "" {
		origin = " " + first.origin() + "."
	}
	fmt.Fprintf(w, "\n### %s: %s\n\n", strings.Join(stems, ", "), about.title)
	repeats := "interleaved repeats"
	if kind == steps { // one budget after the other
		repeats = "repeats"
	}
	fmt.Fprintf(w, "%s. %d %s.%s From %s on. %s\n",
		plain(first.DeviceName), first.Repeats, repeats, origin, plain(first.MeasuredAt), about.note)
	t := newTable("", "by", ">runs", ">median", ">min", ">max", about.column)
	for _, k := range keys {
		var medians, least, most []float64
		for _, r := range rows[k] {
			medians = append(medians, r.Value)
			least, most = append(least, r.least()), append(most, r.most())
		}
		r := rows[k][0]
		t.add(plain(k.name), plain(k.program), fmt.Sprint(len(medians)), r.text(stats.Median(medians)),
			r.text(slices.Min(least)), r.text(slices.Max(most)), about.last(rows[k]))
	}
	t.write(w)
	for _, f := range files {
		writeNotAvailable(w, f.Missing)
	}
}

// pinionFirst orders files by their commits: peers have none.
func pinionFirst(a, b string) int { return cmp.Compare(min(len(b), 1), min(len(a), 1)) }
