package benchcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/procbench"
	"github.com/pinion-gpu/pinion/device"
)

// fixedProcesses is a run on a GPU as it might be.
func fixedProcesses() *processesRun {
	const ms, us = time.Millisecond, time.Microsecond
	times := func(d time.Duration) procbench.Times {
		return procbench.Times{Median: d, Least: d * 98 / 100, Most: d * 102 / 100}
	}
	row := func(path, direction string, first, alone, together time.Duration, a, b float64) procbench.Row {
		return procbench.Row{
			Path: path, Direction: direction, First: times(first), Alone: times(alone), Together: times(together),
			Total: 2 * 250e6 / together.Seconds(), Overlap: 0.99, AloneOfPrivate: a, TogetherOfPrivate: b,
		}
	}
	return &processesRun{
		info:   device.Info{ID: "cuda:0", Name: "Fast GPU", Link: device.Link{Kind: "PCIe", MaxGen: 5, MaxWidth: 16}},
		opened: 300 * ms,
		Report: &procbench.Report{
			Size: 250e6, Procs: 2, Repeats: 7,
			Times: []procbench.Timing{
				{What: procbench.OpenDevice, Times: times(400 * ms)}, {What: procbench.PinPrivate, Times: times(20 * ms)},
				{What: procbench.MapShared, Times: times(2 * ms)}, {What: procbench.PinShared, Times: times(11 * ms)},
				{What: procbench.SendPrivate, Times: times(120 * ms)},
			},
			Rows: []procbench.Row{
				row(procbench.Pageable, "h2d", 45*ms, 25*ms, 40*ms, 0.2, 0.25),
				row(procbench.Pageable, "d2h", 30*ms, 20*ms, 40*ms, 0.25, 0.25),
				row(procbench.PageableStaged, "h2d", 15*ms, 5500*us, 11*ms, 0.91, 0.91),
				row(procbench.Private, "h2d", 6*ms, 5*ms, 10*ms, 1, 1),
				row(procbench.Private, "d2h", 5*ms, 5*ms, 10*ms, 1, 1),
				row(procbench.Serialised, "h2d", 46*ms, 25*ms, 40*ms, 0.2, 0.25),
				row(procbench.Shared, "h2d", 6*ms, 5*ms, 10*ms, 0.998, 0.997),
				row(procbench.Shared, "d2h", 5*ms, 5*ms, 10*ms, 0.996, 0.999),
			},
		},
	}
}

func processesText(r *processesRun) string {
	var b strings.Builder
	newProcessesOutput(r).print(&b)
	return b.String()
}

// What people read, word for word.
func TestProcessesText(t *testing.T) {
	const want = `cuda:0  Fast GPU  PCIe 5.0 x16, 63 GB/s
238 MiB a copy by 2 processes, median of 7 interleaved repeats
GB/s of a process alone, of each with all copying together, and in all.
% is the rate compared with private pinned. SPREAD is the gap between the
slowest and the fastest copy of any process, as a percentage of the median.

HOST MEMORY        COPY  FIRST COPY  ALONE  TOGETHER  IN ALL  SPREAD  % ALONE  % TOGETHER
pageable           H2D      45.0 ms  10.00      6.25   12.50     4 %   20.0 %      25.0 %
pageable           D2H      30.0 ms  12.50      6.25   12.50     4 %   25.0 %      25.0 %
pageable, staged   H2D      15.0 ms  45.45     22.73   45.45     4 %   91.0 %      91.0 %
private pinned     H2D      6.00 ms  50.00     25.00   50.00     4 %  100.0 %     100.0 %
private pinned     D2H      5.00 ms  50.00     25.00   50.00     4 %  100.0 %     100.0 %
serialised pinned  H2D      46.0 ms  10.00      6.25   12.50     4 %   20.0 %      25.0 %
shared pinned      H2D      6.00 ms  50.00     25.00   50.00     4 %   99.8 %      99.7 %
shared pinned      D2H      5.00 ms  50.00     25.00   50.00     4 %   99.6 %      99.9 %

TIME                                          MEDIAN      MIN      MAX
open the device, in this process (once)       300 ms
open the device, in a new process             400 ms   392 ms   408 ms
pin private memory, 238 MiB                  20.0 ms  19.6 ms  20.4 ms
map the shared segment, 2 x 238 MiB          2.00 ms  1.96 ms  2.04 ms
pin the shared segment, 2 x 238 MiB          11.0 ms  10.8 ms  11.2 ms
serialise and send a pinned buffer, 238 MiB   120 ms   118 ms   122 ms

Why a simple test shows pinned memory 89.0 times as fast: it timed the first use. Opening the device (400 ms) and the first pageable copy (45.0 ms) take that many times a steady pinned copy (5.00 ms). Steady copies compared, pinned is 5.00 times as fast.
Why a pinned buffer is no faster in another process: it arrives pageable. There it copies at 10.00 GB/s, ordinary memory at 10.00 and private pinned memory at 50.00.
What to do instead: a shared segment that each process pins. In the process that is furthest behind it reaches 99.6 % of private pinned memory alone and 99.7 % together.
`
	if got := processesText(fixedProcesses()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What could not be measured is not explained.
func TestProcessesTextLess(t *testing.T) {
	without := func(paths ...string) *processesRun {
		r := fixedProcesses()
		rows := r.Rows
		r.Rows = nil
		for _, row := range rows {
			keep := true
			for _, p := range paths {
				keep = keep && row.Path != p
			}
			if keep {
				r.Rows = append(r.Rows, row)
			}
		}
		for _, p := range paths {
			r.Skipped = append(r.Skipped, procbench.Skipped{Path: p, Why: device.ErrPinLimit})
		}
		return r
	}
	const naive, arrives, instead, none = "Why a simple test", "it arrives pageable", "What to do instead", "no memory could be pinned"
	unlinked, apart := fixedProcesses(), fixedProcesses()
	unlinked.info.Integrated = true
	apart.Rows[1].Overlap = 0.42
	for name, c := range map[string]struct {
		run         *processesRun
		has, hasNot []string
	}{
		"no link":      {unlinked, []string{"there is no link"}, []string{naive, arrives, instead, none}},
		"no pinned":    {without(procbench.Private, procbench.Serialised, procbench.Shared), []string{none, "Not available: private pinned; serialised pinned; shared pinned: page-locked"}, []string{naive, arrives, instead}},
		"no segment":   {without(procbench.Shared), []string{naive, arrives}, []string{instead, none}},
		"not sent":     {without(procbench.Serialised), []string{naive, instead}, []string{arrives, none}},
		"not together": {apart, []string{naive, "for only 42 % of the time", "(pageable, D2H)"}, []string{none}},
		"all":          {fixedProcesses(), []string{naive, arrives, instead}, []string{none, "with care", "Not available"}},
	} {
		text := processesText(c.run)
		for _, part := range c.has {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is missing in\n%s", name, part, text)
			}
		}
		for _, part := range c.hasNot {
			if strings.Contains(text, part) {
				t.Errorf("%s: %q is in\n%s", name, part, text)
			}
		}
	}
}

// The naive ratio is what a test that times the first use would show.
func TestPuzzles(t *testing.T) {
	p := newProcessesOutput(fixedProcesses()).Puzzles
	if p == nil || p.NaiveRatio != 0.445/0.005 || p.SteadyRatio != 5 || p.SerialisedGBPerS != 10 || p.PinnedGBPerS != 50 ||
		p.SharedAlone != 0.996 || p.SharedTogether != 0.997 {
		t.Errorf("%+v", p)
	}
}
