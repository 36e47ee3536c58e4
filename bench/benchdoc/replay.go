package main

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

// replays is what a peer's file of replayed traces is about.
const replays = "replay"

// replayFile is what `pinion replay --json` prints, which is one replay, or a
// file of a peer, which has several.
type replayFile struct {
	provenance
	Peer string `json:"peer"`
	replay
	Replays []replay `json:"replays"`
}

// replay is a trace of allocations on an allocator.
type replay struct {
	Trace     string  `json:"trace"` // path or name
	Allocator string  `json:"allocator"`
	Capacity  int64   `json:"capacity_bytes"`
	Events    int64   `json:"events"`
	Needed    int64   `json:"peak_trace_bytes"` // live at the peak if nothing failed
	Live      int64   `json:"peak_live_bytes"`
	Reserved  int64   `json:"peak_reserved_bytes"`
	OOMs      int64   `json:"ooms"`
	LeastOOM  int64   `json:"least_oom_bytes"` // that would have been live when an allocation failed
	Calls     int64   `json:"driver_calls"`
	AllocP50  float64 `json:"alloc_p50_seconds"`
	AllocP99  float64 `json:"alloc_p99_seconds"`
	FreeP50   float64 `json:"free_p50_seconds"`

	by string
}

// all are the replays of f.
func (f *replayFile) all() []replay {
	list := f.Replays
	if f.Peer == "" {
		list = []replay{f.replay}
	}
	for i := range list {
		r := &list[i]
		r.Trace, _, _ = strings.Cut(path.Base(r.Trace), ".")
		r.by = f.Peer + ": " + r.Allocator
		if f.Peer == "" {
			r.by = cmp.Or(allocators[r.Allocator], r.Allocator)
		}
	}
	return list
}

// allocators are what `pinion replay --allocator` offers, in words.
var allocators = map[string]string{
	"pinion": "Pinion",
	"plain":  "driver",
	"driver": "driver, stream-ordered",
}

func (f *replayFile) check() error {
	var errs []error
	for _, r := range f.all() {
		if r.Trace == "" || r.Trace == "." || r.Allocator == "" {
			errs = append(errs, fmt.Errorf("trace %q on allocator %q", r.Trace, r.Allocator))
		}
		if r.Capacity <= 0 || r.Events <= 0 || r.Live <= 0 || r.Reserved < r.Live || r.OOMs < 0 || r.Calls < 0 ||
			r.AllocP50 < 0 || r.AllocP99 < r.AllocP50 || r.FreeP50 < 0 {
			errs = append(errs, fmt.Errorf("%s on %s: %+v is no replay", r.Trace, r.Allocator, r))
		}
	}
	return errors.Join(errs...)
}

// tight reports whether the trace filled the memory that there was.
func (r *replay) tight() bool { return r.Needed > r.Capacity/10*9 }

// writeReplays writes all replays of a run as one table, by traces, those with
// much memory first.
func writeReplays(w *strings.Builder, files []*replayFile) {
	if len(files) == 0 {
		return
	}
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b *replayFile) int { return pinionFirst(a.Commit, b.Commit) })
	var stems []string
	var list []replay
	for _, f := range files {
		stem := f.file
		if f.Peer == "" { // a file for each replay
			stem, _, _ = strings.Cut(stem, "-")
		}
		if !slices.Contains(stems, stem) {
			stems = append(stems, stem)
		}
		list = append(list, f.all()...)
	}
	tight := func(r replay) int {
		if r.tight() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b replay) int {
		return cmp.Or(cmp.Compare(a.Trace, b.Trace), cmp.Compare(tight(a), tight(b)))
	})
	first := files[0]
	origin := ""
	if first.Commit != "" {
		origin = " " + first.origin() + "."
	}
	fmt.Fprintf(w, "\n### %s: replayed traces\n\n", strings.Join(stems, ", "))
	fmt.Fprintf(w, "%s From %s on. Reserved and driver calls are by the allocator's own count: of the driver's, what is live. Out of memory are allocations that failed, and the least share of the capacity that would have been live. Times are those of a call.\n",
		strings.TrimSpace(machines(files)+origin), plain(first.MeasuredAt))
	t := newTable("trace", "allocator", ">capacity", ">peak live", ">peak reserved", ">reserved / live",
		">out of memory", ">driver calls", ">alloc, median", ">alloc, 99 %", ">free, median")
	for _, r := range list {
		failed := fmt.Sprint(r.OOMs)
		if r.OOMs > 0 {
			failed += fmt.Sprintf(", from %s on", units.Percent(float64(r.LeastOOM)/float64(r.Capacity)))
		}
		t.add(plain(r.Trace), plain(r.by), units.Bytes(r.Capacity), units.Bytes(r.Live), units.Bytes(r.Reserved),
			fmt.Sprintf("%.3f", float64(r.Reserved)/float64(r.Live)), failed, units.Grouped(r.Calls),
			nanoseconds(1e9*r.AllocP50), nanoseconds(1e9*r.AllocP99), nanoseconds(1e9*r.FreeP50))
	}
	t.write(w)
}

// machines names what files were measured on, as far as they say.
func machines(files []*replayFile) string {
	var names []string
	for _, f := range files {
		if name := f.DeviceName; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return plain(strings.Join(names, ", ")) + "."
}
