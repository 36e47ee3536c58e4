package pipeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

// ChunkTimes is when one chunk was where, counted from the start of the first
// copy. Copies that are queued and computing are timed by the device, with
// events; copies that block by the host's clock. The two are aligned once, to
// some ten microseconds.
type ChunkTimes struct {
	Bytes   int64 // of In
	CopyIn  Interval
	Compute Interval
	CopyOut Interval // zero without Out

	// Gap is how long computing stood idle before this chunk since the one
	// before ended: the bubble. It is zero for the first chunk.
	Gap time.Duration
}

// Report tells how a run of a [Pipeline] went. All of it counts the
// chunks that got through: all of them, unless the run failed.
type Report struct {
	InBytes, OutBytes int64 // that got through; OutBytes is zero without Out
	ChunkBytes        int64 // of In, in a full chunk
	Buffers           int
	DeviceBytes       int64 // of the buffers
	PinnedIn          bool  // chunks were copied straight from pinned memory
	PinnedOut         bool  // and to it

	Chunks []ChunkTimes

	// Setup is the time before the first copy: checks, device memory,
	// streams and events. The other times do not contain it.
	Setup time.Duration

	// Wall is the time from there to the end of the last chunk.
	Wall time.Duration

	// CopyIn, Compute and CopyOut are the time in which at least one chunk
	// was copied in, computed on, copied out.
	CopyIn, Compute, CopyOut time.Duration

	// Overlap is the share, 0 to 1, of the time in which anything was copied,
	// in or out, that some chunk was computed on as well. It is zero when
	// nothing was copied. When copies take longer than computing it cannot
	// reach 1: then see Efficiency.
	Overlap float64

	// Gaps is the sum of the chunks' gaps.
	Gaps time.Duration

	// Ideal is the wall time of the same copies and computing if each chunk
	// entered a stage the moment that it had left the one before and the
	// chunk ahead of it had left the stage, with any number of buffers. It is
	// the longest stage's time with what nothing can hide: the first chunk's
	// way to that stage (fill) and the last one's behind it (drain). Where two
	// chunks were copied at once, that time counts for the first of them.
	Ideal time.Duration

	// Efficiency is Ideal / Wall, 0 to 1.
	Efficiency float64
}

// summary derives the report from what the run measured.
func (r *run) summary() Report {
	_, pinnedIn := r.in.(*queuedCopier)
	_, pinnedOut := r.out.(*queuedCopier)
	report := Report{
		ChunkBytes:  r.plan.chunkItems * r.plan.itemBytes,
		Buffers:     r.plan.buffers,
		DeviceBytes: r.plan.deviceBytes,
		PinnedIn:    pinnedIn,
		PinnedOut:   pinnedOut,
		Chunks:      r.times,
		Setup:       r.setup,
	}
	report.derive()
	report.OutBytes = report.InBytes / r.plan.itemBytes * r.plan.outItemBytes
	return report
}

// derive fills in what follows from Chunks.
func (r *Report) derive() {
	var in, compute, out []Interval
	var ideal makespan
	var ends [3]time.Duration // of the chunks so far, by stage
	for k := range r.Chunks {
		c := &r.Chunks[k]
		if k > 0 {
			c.Gap = max(c.Compute.Start-ends[1], 0)
		}
		var job [3]time.Duration
		for stage, i := range []Interval{c.CopyIn, c.Compute, c.CopyOut} {
			job[stage] = max(i.End-max(i.Start, ends[stage]), 0)
			ends[stage] = max(ends[stage], i.End)
			r.Wall = max(r.Wall, i.End)
		}
		ideal.add(job)
		in, compute, out = append(in, c.CopyIn), append(compute, c.Compute), append(out, c.CopyOut)
		r.InBytes += c.Bytes
		r.Gaps += c.Gap
	}
	r.Ideal = ideal.total()
	copies, computing := merged(append(in, out...)), merged(compute)
	r.CopyIn, r.Compute, r.CopyOut = length(merged(in)), length(computing), length(merged(out))
	if d := length(copies); d > 0 {
		r.Overlap = float64(common(copies, computing)) / float64(d)
	}
	if r.Wall > 0 {
		r.Efficiency = float64(r.Ideal) / float64(r.Wall)
	}
}

// String prints the report as a table, without the single chunks.
func (r Report) String() string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s of %s, %s, %s of device memory\n", units.Count(len(r.Chunks), "chunk"), units.Bytes(r.ChunkBytes),
		units.Count(r.Buffers, "buffer"), units.Bytes(r.DeviceBytes))
	table := texttable.New("", ">time", ">of wall", ">bytes", ">GB/s", "")
	row := func(name string, d time.Duration, n int64, note string) {
		share := 0.0
		if r.Wall > 0 {
			share = float64(d) / float64(r.Wall)
		}
		bytes, rate := "", ""
		if n > 0 {
			bytes, rate = units.Bytes(n), units.Digits(0)
			if d > 0 {
				rate = units.Digits(float64(n) / d.Seconds() / 1e9)
			}
		}
		table.Add(name, units.Duration(d), units.Percent(share), bytes, rate, note)
	}
	kind := func(pinned bool) string {
		if pinned {
			return "pinned"
		}
		return "not pinned"
	}
	row("copy in", r.CopyIn, r.InBytes, kind(r.PinnedIn))
	row("compute", r.Compute, 0, "")
	if r.OutBytes > 0 {
		row("copy out", r.CopyOut, r.OutBytes, kind(r.PinnedOut))
	}
	row("wall", r.Wall, r.InBytes, "")
	row("ideal", r.Ideal, 0, "efficiency "+units.Percent(r.Efficiency))
	row("gaps", r.Gaps, 0, "in computing; "+units.Percent(r.Overlap)+" of the copying overlaps it")
	return t.String() + table.String()
}
