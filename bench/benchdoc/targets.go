package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/tierdoc"
	"github.com/pinion-gpu/pinion/internal/units"
)

// target is a figure of work with more than the device has, and what it has to
// be on an H200.
type target struct {
	name   string
	wanted float64
	atMost bool // else at least
	text   func(float64) string

	// measured finds the figure in a run.
	measured func(r *run) (v float64, ok bool)
}

// reached reports whether v is as wanted.
func (t *target) reached(v float64) bool {
	if t.atMost {
		return v <= t.wanted
	}
	return v >= t.wanted
}

func (t *target) bound() string {
	switch {
	case t.wanted == 0:
		return t.text(0)
	case t.atMost:
		return "at most " + t.text(t.wanted)
	}
	return "at least " + t.text(t.wanted)
}

func count(v float64) string    { return units.Grouped(int64(v)) }
func ratio(v float64) string    { return fmt.Sprintf("%.3f", v) }
func gbPerS(v float64) string   { return number(v) + " GB/s" }
func failures(v float64) string { return units.Count(int(v), "failure") }

// targets lists what is held against a run, in the order of the table.
func targets() (list []target) {
	sweep, zipf := tierdoc.Use{Access: tierdoc.Sequential}, tierdoc.Use{Access: tierdoc.Zipf}
	written := tierdoc.Use{Access: tierdoc.Sequential, Write: true}
	// Where a run has several files, the one with the most rows counts.
	tier := func(u tierdoc.Use, working float64, by string, figure func(r *tierdoc.Row) float64) func(*run) (float64, bool) {
		return func(r *run) (float64, bool) {
			var best *tierFile
			for _, f := range r.tiers {
				if f.find(u, working, by) != nil && (best == nil || len(f.Rows) > len(best.Rows)) {
					best = f
				}
			}
			if best == nil {
				return 0, false
			}
			return figure(best.find(u, working, by)), true
		}
	}
	list = append(list,
		target{"sweep over 4x the budget, of the link's rate", 0.95, false, units.Percent,
			tier(sweep, 4, "announced", func(r *tierdoc.Row) float64 { return r.LinkFraction })},
		target{"the same, every byte written back, both directions", 85, false, gbPerS,
			tier(written, 4, "announced", func(r *tierdoc.Row) float64 { return r.MovedGBPerS })},
		target{"zipf over 2x, recorded: misses, of the best schedule's", 1.1, true, ratio,
			tier(zipf, 2, "announced", func(r *tierdoc.Row) float64 { return float64(r.FilledBytes) / float64(r.LeastBytes) })},
		target{"zipf over 2x, not announced: misses, of LRU's", 1, true, ratio,
			tier(zipf, 2, "store", func(r *tierdoc.Row) float64 { return float64(r.FilledBytes) / float64(r.LRUBytes) })},
		target{"layers of 4x the budget, time of the floor's", 1.05, true, ratio,
			tier(sweep, 4, "layers", func(r *tierdoc.Row) float64 { return 1 / r.FloorFraction })},
		target{"a pool with arrays of twice its size", 0, true, failures, func(r *run) (float64, bool) {
			sum := 0
			for _, f := range r.tiers {
				sum += f.Pressure.Failures
			}
			return float64(sum), len(r.tiers) > 0
		}})
	compared := func(kind, name, by string, figure func(r comparedRow) float64) func(*run) (float64, bool) {
		return func(r *run) (v float64, ok bool) {
			for _, f := range r.compared[kind] {
				for _, row := range f.Rows {
					if f.Commit != "" && row.Name == name && row.By == by {
						v, ok = figure(row), true
					}
				}
			}
			return v, ok
		}
	}
	floor := func(r comparedRow) float64 { return r.FloorFraction }
	value := func(r comparedRow) float64 { return r.Value }
	list = append(list,
		target{"matmul f32 of 32,768, a quarter resident, of the floor", 0.92, false, units.Percent, compared(outofcore, "f32", "out of core, 1/4", floor)},
		target{"matmul bf16 of 65,536, a quarter resident, of the floor", 0.92, false, units.Percent, compared(outofcore, "bf16", "out of core, 1/4", floor)},
		target{"checkpoint from the page cache", 46, false, gbPerS, compared(weights, "load in page cache", pinion, value)},
		target{"checkpoint from the disk, of the disk's rate", 0.95, false, units.Percent, coldLoad})
	replayed := func(trace string, full bool, figure func(r replay) float64) func(*run) (float64, bool) {
		return func(r *run) (v float64, ok bool) {
			for _, f := range r.replays {
				for _, x := range f.all() {
					if x.Trace == trace && f.Peer == "" && x.Allocator == "pinion" && x.tight() == full {
						v, ok = figure(x), true
					}
				}
			}
			return v, ok
		}
	}
	reserved := func(r replay) float64 { return float64(r.Reserved) / float64(r.Live) }
	for _, x := range []struct {
		trace string
		calls float64
	}{{"random-10000", 20_000}, {"random-1000", 2_000}, {"growing", 1_000}, {"cycles", 500}} {
		list = append(list,
			target{x.trace + ": reserved of live", 1.15, true, ratio, replayed(x.trace, false, reserved)},
			target{x.trace + ": driver calls", x.calls, true, count, replayed(x.trace, false, func(r replay) float64 { return float64(r.Calls) })},
			target{x.trace + ": alloc, 99 %", 300e-6, true, duration, replayed(x.trace, false, func(r replay) float64 { return r.AllocP99 })},
			target{x.trace + ", 97 % live", 0, true, failures, replayed(x.trace, true, func(r replay) float64 { return float64(r.OOMs) })})
	}
	for _, most := range []string{"6", "16", "20"} {
		name, trace := "40,000 blocks of up to "+most+" MiB, 97 % live", "blocks-"+most
		list = append(list,
			target{name, 0, true, failures, replayed(trace, true, func(r replay) float64 { return float64(r.OOMs) })},
			target{name + ": reserved of live", 1.05, true, ratio, replayed(trace, true, reserved)})
	}
	list = append(list,
		target{"alloc and free 4 KiB, cached", 150e-9, true, nanosecondsOf, compared(hold, "alloc and free 4 KiB", pinion, func(r comparedRow) float64 { return r.Value * 1e-9 })},
		target{"first alloc of 1 GiB", 1e-3, true, duration, compared(hold, "first alloc of 1 GiB", pinion, func(r comparedRow) float64 { return r.Value * 1e-3 })})
	for _, what := range []string{"arrays", "photos"} {
		name := what + ": time of a batch with --trace"
		list = append(list, target{name + ", of that without", 1.03, true, ratio, compared(traced, name, pinion, value)})
	}
	return append(list, stepTargets()...)
}

func nanosecondsOf(seconds float64) string { return nanoseconds(1e9 * seconds) }

// coldLoad is the rate of a checkpoint from the disk over the best that plain
// reads reach, medians over the runs that took turns.
func coldLoad(r *run) (float64, bool) {
	var ours []float64
	plainReads := map[string][]float64{}
	for _, f := range r.turns["disk"] {
		for _, row := range f.Rows {
			switch {
			case !strings.Contains(f.file, weights):
			case f.Commit == "":
				plainReads[row.Name] = append(plainReads[row.Name], row.Value)
			case strings.HasSuffix(row.Name, ", checkpoint"):
				ours = append(ours, row.Value)
			}
		}
	}
	best := 0.0
	for _, values := range plainReads {
		best = max(best, stats.Median(values))
	}
	if best == 0 || ours == nil {
		return 0, false
	}
	return stats.Median(ours) / best, true
}

// verdict is a target and what came of it.
type verdict struct{ name, wanted, measured, reached string }

// verdicts holds a run against the targets that it measured.
func (r *run) verdicts() (list []verdict) {
	for _, t := range targets() {
		if v, ok := t.measured(r); ok {
			reached := "no"
			if t.reached(v) {
				reached = "yes"
			}
			list = append(list, verdict{t.name, t.bound(), t.text(v), reached})
		}
	}
	return list
}

// writeTargets writes what a run has to reach, if it measured working sets
// larger than the device, or steps.
func (r *run) writeTargets(w *strings.Builder) {
	if len(r.tiers)+len(r.compared[outofcore])+len(r.compared[steps])+len(r.compared[traced]) == 0 {
		return
	}
	t := newTable("more than the device has", ">wanted", ">measured", "reached")
	for _, v := range r.verdicts() {
		t.add(plain(v.name), v.wanted, v.measured, v.reached)
	}
	t.write(w)
}

// printTargets prints the same for people, with what was not measured.
func (r *run) printTargets(w io.Writer) {
	list := r.verdicts()
	t := texttable.New("TARGET", ">WANTED", ">MEASURED", "REACHED")
	for _, v := range list {
		t.Add(v.name, v.wanted, v.measured, v.reached)
	}
	for _, x := range targets() {
		if !slices.ContainsFunc(list, func(v verdict) bool { return v.name == x.name }) {
			t.Add(x.name, x.bound(), "", "not measured")
		}
	}
	t.Write(w)
}
