package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

// moves is what the files of bench/moves, and of its peers, are about.
const moves = "moves"

// movesFile is what bench/moves prints.
type movesFile struct {
	provenance
	Repeats    int        `json:"repeats"`
	Copiers    int        `json:"copiers"`
	Calibrated bool       `json:"calibrated"`
	Rows       []movesRow `json:"rows"`
	Choice     []struct {
		Bytes     int64   `json:"bytes"`
		Direction string  `json:"direction"`
		Chosen    float64 `json:"chosen_seconds"`
		BestTime  float64 `json:"best_seconds"`
		Best      string  `json:"best"`
	} `json:"choice"`
	Missing []notAvailable `json:"not_available"`
}

type movesRow struct {
	peerRow
	Path         string  `json:"path"`
	ChunkBytes   int64   `json:"chunk_bytes"`
	GBPerS       float64 `json:"gb_per_s"`
	SetupSeconds float64 `json:"setup_seconds"`
}

func (f *movesFile) check() error {
	var errs []error
	for _, r := range f.Rows {
		errs = append(errs, r.check())
	}
	for _, c := range f.Choice {
		if c.Bytes <= 0 || c.Chosen <= 0 || c.BestTime <= 0 || directions[c.Direction] == "" {
			errs = append(errs, fmt.Errorf("choice: %+v is no comparison", c))
		}
	}
	return errors.Join(errs...)
}

// write writes Pinion's rows, each with the best of the peers' beside it.
func (f *movesFile) write(w *strings.Builder, peers []*peerFile) {
	fmt.Fprintf(w, "\n### %s: Pinion, moving bytes\n\n", f.file)
	fmt.Fprintf(w, "%s. %d interleaved repeats", plain(f.DeviceName), f.Repeats)
	if f.Copiers > 0 {
		fmt.Fprintf(w, ", %d copiers", f.Copiers)
	}
	how := "by rules of thumb"
	if f.Calibrated {
		how = "by a model of this link"
	}
	fmt.Fprintf(w, ", paths chosen %s. %s, %s.\n", how, f.origin(), plain(f.MeasuredAt))

	t := newTable("", ">median", ">min", ">max", "", ">best peer", "by")
	for _, r := range f.Rows {
		value, by := f.bestPeer(r, peers)
		t.add(plain(r.Name), r.text(r.Value), r.optionalText(r.Min), r.optionalText(r.Max), r.how(), value, by)
	}
	t.write(w)

	t = newTable("ordinary memory", "direction", ">chosen path", ">fastest path", "which is", ">slower by")
	for _, c := range f.Choice {
		t.add(units.Bytes(c.Bytes), directions[c.Direction], duration(c.Chosen), duration(c.BestTime),
			plain(c.Best), units.Percent(c.Chosen/c.BestTime-1))
	}
	t.write(w)
	writeNotAvailable(w, f.Missing)
}

// how says what belongs to the figure.
func (r *movesRow) how() string {
	var parts []string
	if r.Path != "" {
		parts = append(parts, plain(r.Path))
	}
	if r.GBPerS > 0 {
		parts = append(parts, number(r.GBPerS)+" GB/s")
	}
	if r.ChunkBytes > 0 {
		parts = append(parts, "chunks of "+units.Bytes(r.ChunkBytes))
	}
	if r.SetupSeconds > 0 {
		parts = append(parts, "and "+duration(r.SetupSeconds)+" to begin with")
	}
	return strings.Join(parts, ", ")
}

// bestPeer finds the best of the peers' rows that are about the same thing as
// r: those whose names are its name, or begin with it and then say how.
func (f *movesFile) bestPeer(r movesRow, peers []*peerFile) (value, by string) {
	var best *peerRow
	for _, p := range peers {
		if p.What != moves {
			continue
		}
		for i := range p.Rows {
			other := &p.Rows[i]
			if other.Unit != r.Unit || f.subject(other.Name) != r.Name {
				continue
			}
			_, isTime := secondsPer[r.Unit]
			if best == nil || isTime && other.Value < best.Value || !isTime && other.Value > best.Value {
				best = other
				by = plain(p.Peer)
				if how := strings.TrimPrefix(other.Name[len(r.Name):], ", "); how != "" {
					by += ": " + plain(how)
				}
			}
		}
	}
	if best == nil {
		return "", ""
	}
	return best.text(best.Value), by
}

// subject is the longest name of a row of f that the name of a peer's row is,
// or begins with.
func (f *movesFile) subject(name string) (longest string) {
	for _, r := range f.Rows {
		if len(r.Name) > len(longest) && (name == r.Name || strings.HasPrefix(name, r.Name+", ")) {
			longest = r.Name
		}
	}
	return longest
}
