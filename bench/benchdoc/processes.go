package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

// processes is what the files of peers of `pinion bench processes` are about.
const processes = "processes"

// processesFile is what `pinion bench processes --json` prints.
type processesFile struct {
	provenance
	SizeBytes int64           `json:"size_bytes"`
	Processes int             `json:"processes"`
	Repeats   int             `json:"repeats"`
	Times     []timing        `json:"times"`
	Copies    []processesCopy `json:"copies"`
	Puzzles   *struct {
		Naive  float64 `json:"naive_ratio"`
		Steady float64 `json:"steady_ratio"`
	} `json:"puzzles"`
	Missing []notAvailable `json:"not_available"`
}

// processesCopy is one kind of host memory in one direction. Fractions are of
// private pinned memory, in the process that is furthest behind.
type processesCopy struct {
	Memory        string  `json:"memory"`
	Direction     string  `json:"direction"`
	First         float64 `json:"first_seconds"`
	Alone         spread  `json:"alone"`
	Together      spread  `json:"together"`
	Total         float64 `json:"together_total_gb_per_s"`
	AloneShare    float64 `json:"alone_of_private_pinned_ratio"`
	TogetherShare float64 `json:"together_of_private_pinned_ratio"`
	Overlap       float64 `json:"overlap_fraction"`
}

// spread is a median rate with the least and the most.
type spread struct {
	GBPerS float64 `json:"gb_per_s"`
	Min    float64 `json:"min_gb_per_s"`
	Max    float64 `json:"max_gb_per_s"`
}

func (s spread) String() string {
	return fmt.Sprintf("%s (%s-%s)", number(s.GBPerS), number(s.Min), number(s.Max))
}

func (f *processesFile) check() error {
	var errs []error
	for _, c := range f.Copies {
		what := c.Memory + " " + c.Direction
		if directions[c.Direction] == "" {
			errs = append(errs, fmt.Errorf("%q is no direction", what))
		}
		errs = append(errs, checkSpread(what+", alone", c.Alone.GBPerS, c.Alone.Min, c.Alone.Max),
			checkSpread(what+", together", c.Together.GBPerS, c.Together.Min, c.Together.Max))
	}
	for _, t := range f.Times {
		errs = append(errs, checkSpread(t.What, t.Seconds, t.Min, t.Max))
	}
	return errors.Join(errs...)
}

func (f *processesFile) write(w *strings.Builder) {
	fmt.Fprintf(w, "\n### %s: Pinion, pinned memory in %d processes\n\n", f.file, f.Processes)
	fmt.Fprintf(w, "%s. %s a copy, %d interleaved repeats. GB/s of each process, and of all together; per cent of private pinned memory, in the process that is furthest behind. %s, %s.\n",
		plain(f.DeviceName), units.Bytes(f.SizeBytes), f.Repeats, f.origin(), plain(f.MeasuredAt))

	t := newTable("host memory", "direction", ">first copy", ">alone", ">together", ">all", ">of private, alone", ">together", ">copying at once")
	share := func(v float64) string {
		if v == 0 { // there is no private pinned memory to compare with
			return ""
		}
		return units.Percent(v)
	}
	for _, c := range f.Copies {
		t.add(plain(c.Memory), directions[c.Direction], duration(c.First), c.Alone.String(), c.Together.String(),
			number(c.Total), share(c.AloneShare), share(c.TogetherShare), units.Percent(c.Overlap))
	}
	t.write(w)

	t = newTable("time", ">median", ">min", ">max")
	for _, s := range f.Times {
		t.add(plain(s.What), duration(s.Seconds), duration(s.Min), duration(s.Max))
	}
	t.write(w)
	if p := f.Puzzles; p != nil {
		fmt.Fprintf(w, "\nTimed with the first use, pinned memory seems %s times as fast as pageable; steady copies are %s times as fast.\n",
			number(p.Naive), number(p.Steady))
	}
	writeNotAvailable(w, f.Missing)
}
