package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/stats"
)

// turnKinds are what files of short runs that took turns are about, Pinion's and
// its peers', because the machine drifts: its title, and how they ran.
var turnKinds = map[string]struct{ title, how string }{
	"queued": {"small copies, queued", "All on one core, in turn"},
	"disk":   {"a file from the disk", "In turn"},
}

// turnFile is one such run, of Pinion if it has a commit.
type turnFile struct {
	provenance
	Peer string    `json:"peer"`
	Rows []peerRow `json:"rows"`
}

func (f *turnFile) check() error {
	var errs []error
	for _, r := range f.Rows {
		errs = append(errs, r.check())
	}
	return errors.Join(errs...)
}

// writeTurns writes all files of a run of one kind as one table: for each row
// and program the median of its runs' medians, with the least and the most of
// all.
func writeTurns(w *strings.Builder, kind string, files []*turnFile) {
	type key struct{ row, program string }
	var keys []key
	var names []string
	rows := map[key][]peerRow{}
	machine, origin := files[0].DeviceName, ""
	for _, f := range files {
		if name := strings.TrimRight(f.file, "-0123456789"); !slices.Contains(names, name) {
			names = append(names, name)
		}
		if f.Commit != "" {
			machine, origin = f.DeviceName, " "+f.origin()+"."
		}
		for _, r := range f.Rows {
			k := key{r.Name, f.Peer}
			if rows[k] == nil {
				keys = append(keys, k)
			}
			rows[k] = append(rows[k], r)
		}
	}
	fmt.Fprintf(w, "\n### %s: %s\n\n", strings.Join(names, ", "), turnKinds[kind].title)
	fmt.Fprintf(w, "%s. %s.%s From %s on.\n", plain(machine), turnKinds[kind].how, origin, plain(files[0].MeasuredAt))
	t := newTable("", "by", ">runs", ">median", ">min", ">max")
	for _, k := range keys {
		var medians, least, most []float64
		for _, r := range rows[k] {
			medians = append(medians, r.Value)
			least, most = append(least, r.least()), append(most, r.most())
		}
		r := rows[k][0]
		t.add(plain(k.row), plain(k.program), fmt.Sprint(len(medians)), r.text(stats.Median(medians)),
			r.text(slices.Min(least)), r.text(slices.Max(most)))
	}
	t.write(w)
}

// least is the row's least value, as far as it is known.
func (r *peerRow) least() float64 {
	if r.Min != nil {
		return *r.Min
	}
	return r.Value
}

// most is the row's greatest value, as far as it is known.
func (r *peerRow) most() float64 {
	if r.Max != nil {
		return *r.Max
	}
	return r.Value
}
