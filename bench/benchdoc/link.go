package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

// linkFile is what `pinion bench link --json` prints.
type linkFile struct {
	provenance
	Link      *wire   `json:"link"`
	SizeBytes int64   `json:"size_bytes"`
	PinBytes  int64   `json:"pin_bytes"` // of older results 0: as SizeBytes
	Repeats   int     `json:"repeats"`
	Init      float64 `json:"initialisation_seconds"`
	Bulk      []struct {
		Path      string  `json:"path"`
		Direction string  `json:"direction"`
		GBPerS    float64 `json:"gb_per_s"`
		Min       float64 `json:"min_gb_per_s"`
		Max       float64 `json:"max_gb_per_s"`
		OfBest    float64 `json:"of_best_fraction"`
	} `json:"bulk"`
	Curves  []curvePoint   `json:"curves"` // with --curves
	Small   []timing       `json:"small_copies"`
	Pin     []timing       `json:"pin_cost"`
	Missing []notAvailable `json:"not_available"`
}

type timing struct {
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
	Min     float64 `json:"min_seconds"`
	Max     float64 `json:"max_seconds"`
}

// wire is a link.
type wire struct {
	Kind  string  `json:"kind"`
	Gen   int     `json:"max_generation"`
	Width int     `json:"max_width"`
	Rate  float64 `json:"wire_gb_per_s"`
}

func (l *wire) String() string {
	return fmt.Sprintf("%s %d.0 x%d (%s GB/s on the wire)", l.Kind, l.Gen, l.Width, number(l.Rate))
}

func (f *linkFile) check() error {
	var errs []error
	for _, b := range f.Bulk {
		errs = append(errs, checkSpread(b.Path+" "+b.Direction, b.GBPerS, b.Min, b.Max))
	}
	for _, p := range f.Curves {
		errs = append(errs, checkSpread(fmt.Sprintf("%s %s, %d bytes", p.Path, p.Direction, p.Bytes), p.GBPerS, p.Min, p.Max))
	}
	for _, t := range append(f.Small[:len(f.Small):len(f.Small)], f.Pin...) {
		errs = append(errs, checkSpread(t.What, t.Seconds, t.Min, t.Max))
	}
	return errors.Join(errs...)
}

// machine names the device and its link.
func (f *linkFile) machine() string {
	text := f.DeviceName
	if f.Link != nil {
		text += ", " + f.Link.String()
	}
	return text
}

func (f *linkFile) write(w *strings.Builder) {
	fmt.Fprintf(w, "\n### %s: Pinion, copies on %s\n\n", f.file, f.Device)
	fmt.Fprintf(w, "%s. %s a copy, %d interleaved repeats. %s, %s.\n",
		plain(f.machine()), units.Bytes(f.SizeBytes), f.Repeats, f.origin(), plain(f.MeasuredAt))

	t := newTable("path", "direction", ">GB/s", ">min", ">max", ">of best")
	for _, b := range f.Bulk {
		t.add(plain(b.Path), directions[b.Direction], number(b.GBPerS), number(b.Min), number(b.Max), fmt.Sprintf("%.0f %%", 100*b.OfBest))
	}
	t.write(w)
	writeCurves(w, f.Curves)

	t = newTable("time", ">median", ">min", ">max")
	t.add("open the device (once)", duration(f.Init), "", "")
	for _, s := range f.Small {
		t.add(plain(s.What)+", waited for", duration(s.Seconds), duration(s.Min), duration(s.Max))
	}
	for _, p := range f.Pin {
		t.add("pin "+units.Bytes(cmp.Or(f.PinBytes, f.SizeBytes))+": "+plain(p.What), duration(p.Seconds), duration(p.Min), duration(p.Max))
	}
	t.write(w)
	writeNotAvailable(w, f.Missing)
}

var directions = map[string]string{"h2d": "host to device", "d2h": "device to host", "both": "both at once"}
