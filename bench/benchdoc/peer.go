package main

import (
	"errors"
	"fmt"
	"strings"
)

// peerFile is a result of another program, measured by a script in bench. See
// bench/README.md for the form.
type peerFile struct {
	file string

	Peer       string    `json:"peer"` // name and version
	What       string    `json:"what"` // "link", "moves", "loader" or "processes"
	DeviceName string    `json:"device_name"`
	MeasuredAt string    `json:"measured_at"`
	Rows       []peerRow `json:"rows"`
}

type peerRow struct {
	Name  string   `json:"name"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit"`
	Min   *float64 `json:"min"`
	Max   *float64 `json:"max"`
}

// secondsPer is the length of the units of time that a row may have.
var secondsPer = map[string]float64{"s": 1, "ms": 1e-3, "µs": 1e-6, "us": 1e-6}

// counted are the units of which there may be none.
var counted = map[string]bool{"%": true, "allocs": true, "MiB": true, "goroutines": true}

func (f *peerFile) check() error {
	var errs []error
	if peerTitles[f.What] == "" {
		errs = append(errs, fmt.Errorf(`"what" is %q, not link, moves, loader or processes`, f.What))
	}
	for _, r := range f.Rows {
		errs = append(errs, r.check())
	}
	return errors.Join(errs...)
}

func (r *peerRow) check() error {
	if r.Name == "" || r.Unit == "" {
		return fmt.Errorf("a row with name %q and unit %q", r.Name, r.Unit)
	}
	if counted[r.Unit] && r.Value == 0 && optional(r.Min) == 0 {
		return nil // nothing is a figure, too
	}
	return checkSpread(r.Name, r.Value, optional(r.Min), optional(r.Max))
}

func optional(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// text prints a value in the row's unit; times in the unit that suits them.
func (r *peerRow) text(v float64) string {
	if unit, ok := secondsPer[r.Unit]; ok {
		return duration(v * unit)
	}
	if v == 0 {
		return "0 " + plain(r.Unit)
	}
	return number(v) + " " + plain(r.Unit)
}

// optionalText prints a value that may not have been measured.
func (r *peerRow) optionalText(v *float64) string {
	if v == nil {
		return ""
	}
	return r.text(*v)
}

func (f *peerFile) write(w *strings.Builder) {
	fmt.Fprintf(w, "\n### %s: %s, %s\n\n", f.file, plain(f.Peer), peerTitles[f.What])
	fmt.Fprintf(w, "%s. %s.\n", plain(f.DeviceName), plain(f.MeasuredAt))
	t := newTable("", ">median", ">min", ">max")
	for _, r := range f.Rows {
		t.add(plain(r.Name), r.text(r.Value), r.optionalText(r.Min), r.optionalText(r.Max))
	}
	t.write(w)
}

var peerTitles = map[string]string{"link": "copies", moves: "moving bytes", "loader": "photos into device memory", processes: "pinned memory in several processes"}
