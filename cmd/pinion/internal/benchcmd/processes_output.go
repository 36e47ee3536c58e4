package benchcmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/procbench"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

type processesOutput struct {
	provenance.Record
	Link         *cli.LinkRow `json:"link,omitempty"`
	SharesMemory bool         `json:"shares_host_memory"`
	SizeBytes    int64        `json:"size_bytes"`
	Processes    int          `json:"processes"`
	Repeats      int          `json:"repeats"`
	InitSeconds  float64      `json:"initialisation_seconds"` // in the parent
	Times        []timingRow  `json:"times"`
	Copies       []sharingRow `json:"copies"`
	Puzzles      *puzzlesRow  `json:"puzzles,omitempty"` // where there is something to see
	NotAvailable []skippedRow `json:"not_available"`
}

// rateRange is a median rate with the least and the most.
type rateRange struct {
	GBPerS    float64 `json:"gb_per_s"`
	MinGBPerS float64 `json:"min_gb_per_s"`
	MaxGBPerS float64 `json:"max_gb_per_s"`
}

// sharingRow is one kind of host memory in one direction. Fractions of
// private pinned memory are of the process that is furthest behind, and left out
// where that was not measured.
type sharingRow struct {
	Memory            string           `json:"memory"`
	Direction         string           `json:"direction"`
	FirstSeconds      float64          `json:"first_seconds"`
	MinFirstSeconds   float64          `json:"min_first_seconds"`
	MaxFirstSeconds   float64          `json:"max_first_seconds"`
	Alone             rateRange        `json:"alone"`
	Together          rateRange        `json:"together"`
	TotalGBPerS       float64          `json:"together_total_gb_per_s"`
	Overlap           float64          `json:"overlap_fraction"`
	AloneOfPrivate    float64          `json:"alone_of_private_pinned_ratio,omitempty"`
	TogetherOfPrivate float64          `json:"together_of_private_pinned_ratio,omitempty"`
	Processes         []sharingProcess `json:"each_process"`
}

type sharingProcess struct {
	Process           int       `json:"process"`
	Alone             rateRange `json:"alone"`
	Together          rateRange `json:"together"`
	AloneOfPrivate    float64   `json:"alone_of_private_pinned_ratio,omitempty"`
	TogetherOfPrivate float64   `json:"together_of_private_pinned_ratio,omitempty"`
}

// puzzlesRow is what the puzzles about pinned memory are explained by. Copies
// are from host to device, by one process alone.
type puzzlesRow struct {
	OpenSeconds          float64 `json:"open_seconds"`
	FirstPageableSeconds float64 `json:"first_pageable_seconds"`
	PageableSeconds      float64 `json:"steady_pageable_seconds"`
	PinnedSeconds        float64 `json:"steady_private_pinned_seconds"`
	NaiveRatio           float64 `json:"naive_ratio"`  // (open + first pageable) over steady pinned
	SteadyRatio          float64 `json:"steady_ratio"` // steady pageable over steady pinned

	PageableGBPerS   float64 `json:"pageable_gb_per_s"`
	PinnedGBPerS     float64 `json:"private_pinned_gb_per_s"`
	SerialisedGBPerS float64 `json:"serialised_pinned_gb_per_s,omitempty"`

	// Of private pinned memory, the lower of the two directions.
	SharedAlone    float64 `json:"shared_alone_of_private_pinned_ratio,omitempty"`
	SharedTogether float64 `json:"shared_together_of_private_pinned_ratio,omitempty"`
}

func newProcessesOutput(r *processesRun) *processesOutput {
	out := &processesOutput{
		Record: r.Record.On(r.info.ID, r.info.Name),
		Link:   cli.NewLinkRow(r.info.Link), SharesMemory: r.info.Integrated,
		SizeBytes: r.Size, Processes: r.Procs, Repeats: r.Repeats, InitSeconds: r.opened.Seconds(),
		Times: []timingRow{}, Copies: []sharingRow{}, NotAvailable: []skippedRow{},
	}
	for _, t := range r.Times {
		out.Times = append(out.Times, timingRow{t.What, t.Median.Seconds(), t.Least.Seconds(), t.Most.Seconds()})
	}
	for _, s := range r.Skipped {
		out.NotAvailable = append(out.NotAvailable, skippedRow{s.Path, s.Why.Error()})
	}
	rates := func(t procbench.Times) rateRange {
		gb := float64(r.Size) / 1e9
		return rateRange{gb / t.Median.Seconds(), gb / t.Most.Seconds(), gb / t.Least.Seconds()}
	}
	for _, c := range r.Rows {
		row := sharingRow{
			Memory: c.Path, Direction: c.Direction,
			FirstSeconds: c.First.Median.Seconds(), MinFirstSeconds: c.First.Least.Seconds(), MaxFirstSeconds: c.First.Most.Seconds(),
			Alone: rates(c.Alone), Together: rates(c.Together), TotalGBPerS: c.Total / 1e9, Overlap: c.Overlap,
			AloneOfPrivate: c.AloneOfPrivate, TogetherOfPrivate: c.TogetherOfPrivate,
		}
		for i, p := range c.Processes {
			row.Processes = append(row.Processes, sharingProcess{i + 1, rates(p.Alone), rates(p.Together),
				p.AloneOfPrivate, p.TogetherOfPrivate})
		}
		out.Copies = append(out.Copies, row)
	}
	if !r.info.Integrated {
		out.Puzzles = newPuzzles(r.Report)
	}
	return out
}

// newPuzzles is nil where the rows that the puzzles are about are missing.
func newPuzzles(r *procbench.Report) *puzzlesRow {
	open, pageable, pinned := r.Time(procbench.OpenDevice), r.Row(procbench.Pageable, "h2d"), r.Row(procbench.Private, "h2d")
	if open == nil || pageable == nil || pinned == nil {
		return nil
	}
	p := &puzzlesRow{
		OpenSeconds: open.Median.Seconds(), FirstPageableSeconds: pageable.First.Median.Seconds(),
		PageableSeconds: pageable.Alone.Median.Seconds(), PinnedSeconds: pinned.Alone.Median.Seconds(),
	}
	p.NaiveRatio = (p.OpenSeconds + p.FirstPageableSeconds) / p.PinnedSeconds
	p.SteadyRatio = p.PageableSeconds / p.PinnedSeconds
	gb := float64(r.Size) / 1e9
	p.PageableGBPerS, p.PinnedGBPerS = gb/p.PageableSeconds, gb/p.PinnedSeconds
	if row := r.Row(procbench.Serialised, "h2d"); row != nil {
		p.SerialisedGBPerS = gb / row.Alone.Median.Seconds()
	}
	if up, down := r.Row(procbench.Shared, "h2d"), r.Row(procbench.Shared, "d2h"); up != nil && down != nil {
		p.SharedAlone = min(up.AloneOfPrivate, down.AloneOfPrivate)
		p.SharedTogether = min(up.TogetherOfPrivate, down.TogetherOfPrivate)
	}
	return p
}

func (o *processesOutput) print(w io.Writer) {
	fmt.Fprintf(w, "%s  %s", o.Device, o.DeviceName)
	if o.Link != nil {
		fmt.Fprintf(w, "  %s", o.Link)
	}
	fmt.Fprintf(w, "\n%s a copy by %s, median of %d interleaved repeats\n", units.Bytes(o.SizeBytes),
		units.Count(o.Processes, "process"), o.Repeats)
	fmt.Fprint(w, "GB/s of a process alone, of each with all copying together, and in all.\n% is the rate compared with private pinned. SPREAD is the gap between the\nslowest and the fastest copy of any process, as a percentage of the median.\n\n")
	o.printCopies(w)
	fmt.Fprintln(w)
	o.printTimes(w)
	printNotAvailable(w, o.NotAvailable)
	fmt.Fprintln(w)
	o.warn(w)
	o.explain(w)
}

// warn says where together was not together.
func (o *processesOutput) warn(w io.Writer) {
	if len(o.Copies) == 0 {
		return
	}
	worst := slices.MinFunc(o.Copies, func(a, b sharingRow) int { return cmp.Compare(a.Overlap, b.Overlap) })
	if worst.Overlap < 0.9 {
		fmt.Fprintf(w, "Take the figures together with care: all processes were copying for only %.0f %% of the time of a copy (%s, %s). Larger copies or fewer processes overlap more.\n",
			100*worst.Overlap, worst.Memory, copyWords[worst.Direction])
	}
}

func (o *processesOutput) printCopies(w io.Writer) {
	t := texttable.New("HOST MEMORY", "COPY", ">FIRST COPY", ">ALONE", ">TOGETHER", ">IN ALL", ">SPREAD", ">% ALONE", ">% TOGETHER")
	share := func(p float64) string {
		if p == 0 {
			return "-"
		}
		return units.Percent(p)
	}
	for _, c := range o.Copies {
		t.Add(c.Memory, copyWords[c.Direction], units.Seconds(c.FirstSeconds), cli.GBPerS(c.Alone.GBPerS), cli.GBPerS(c.Together.GBPerS), cli.GBPerS(c.TotalGBPerS),
			fmt.Sprintf("%.0f %%", 100*max(c.Alone.spread(), c.Together.spread())), share(c.AloneOfPrivate), share(c.TogetherOfPrivate))
	}
	t.Write(w)
}

var copyWords = map[string]string{"h2d": "H2D", "d2h": "D2H"}

// spread is how far apart the least and the most are, in terms of the median.
func (r rateRange) spread() float64 { return (r.MaxGBPerS - r.MinGBPerS) / r.GBPerS }

func (o *processesOutput) printTimes(w io.Writer) {
	t := texttable.New("TIME", ">MEDIAN", ">MIN", ">MAX")
	t.Add("open the device, in this process (once)", units.Seconds(o.InitSeconds), "", "")
	for _, r := range o.Times {
		what := r.What
		switch what {
		case procbench.OpenDevice:
			what += ", in a new process"
		case procbench.MapShared, procbench.PinShared:
			what += fmt.Sprintf(", %d x %s", o.Processes, units.Bytes(o.SizeBytes))
		default:
			what += ", " + units.Bytes(o.SizeBytes)
		}
		t.Add(what, units.Seconds(r.Seconds), units.Seconds(r.MinSeconds), units.Seconds(r.MaxSeconds))
	}
	t.Write(w)
}

// explain says in words what the figures mean for the puzzles.
func (o *processesOutput) explain(w io.Writer) {
	p := o.Puzzles
	switch {
	case o.SharesMemory:
		fmt.Fprintln(w, "This machine cannot show what pinned memory gains: the device shares the host's memory, so there is no link to copy over.")
		return
	case p == nil:
		fmt.Fprintln(w, "This machine cannot show what pinned memory gains: no memory could be pinned.")
		return
	}
	fmt.Fprintf(w, "Why a simple test shows pinned memory %s times as fast: it timed the first use. Opening the device (%s) and the first pageable copy (%s) take that many times a steady pinned copy (%s). Steady copies compared, pinned is %s times as fast.\n",
		units.Digits(p.NaiveRatio), units.Seconds(p.OpenSeconds), units.Seconds(p.FirstPageableSeconds), units.Seconds(p.PinnedSeconds), units.Digits(p.SteadyRatio))
	if p.SerialisedGBPerS > 0 {
		fmt.Fprintf(w, "Why a pinned buffer is no faster in another process: it arrives pageable. There it copies at %s GB/s, ordinary memory at %s and private pinned memory at %s.\n",
			cli.GBPerS(p.SerialisedGBPerS), cli.GBPerS(p.PageableGBPerS), cli.GBPerS(p.PinnedGBPerS))
	}
	if p.SharedAlone > 0 {
		fmt.Fprintf(w, "What to do instead: a shared segment that each process pins. In the process that is furthest behind it reaches %s of private pinned memory alone and %s together.\n",
			units.Percent(p.SharedAlone), units.Percent(p.SharedTogether))
	}
}
