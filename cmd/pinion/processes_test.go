package main

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/procbench"
	"github.com/pinion-gpu/pinion/device"
)

// startable makes the processes that a command starts be the command too.
func startable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes are measured where there are Unix sockets")
	}
	t.Setenv("PINION_TEST_MAIN", "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
}

func TestBenchProcesses(t *testing.T) {
	startable(t)
	args := []string{"bench", "processes", "--device", "host:16MiB", "--size", "64KiB", "--repeats", "2"}
	doc := document(t, []string{"measured_at", "commit", "platform", "cpus", "device", "device_name", "shares_host_memory", "size_bytes",
		"processes", "repeats", "initialisation_seconds", "times", "copies", "not_available"}, append(args, "--procs", "3", "--json")...)
	if doc["size_bytes"] != 65536. || doc["processes"] != 3. || doc["repeats"] != 2. || doc["device"] != "host:16MiB" ||
		doc["shares_host_memory"] != true || doc["puzzles"] != nil {
		t.Errorf("%v", doc)
	}
	seen := map[string]bool{}
	for _, c := range doc["copies"].([]any) {
		row := c.(map[string]any)
		seen[row["memory"].(string)+" "+row["direction"].(string)] = true
		if n := len(row["each_process"].([]any)); n != 3 {
			t.Errorf("%d processes in %v", n, row)
		}
		for _, condition := range []string{"alone", "together"} {
			rates := row[condition].(map[string]any)
			least, median, most := rates["min_gb_per_s"].(float64), rates["gb_per_s"].(float64), rates["max_gb_per_s"].(float64)
			if least <= 0 || median < least || most < median {
				t.Errorf("%s: %v", condition, row)
			}
		}
		for _, key := range []string{"first_seconds", "min_first_seconds", "max_first_seconds", "together_total_gb_per_s"} {
			if row[key].(float64) <= 0 {
				t.Errorf("%s: %v", key, row)
			}
		}
	}
	for _, want := range []string{"pageable h2d", "pageable d2h"} {
		if !seen[want] {
			t.Errorf("%s is not measured", want)
		}
	}
	if r := pinion(t, append(args, "--procs", "1")...); r.code != exitDone || !strings.Contains(r.stdout, "HOST MEMORY") ||
		!strings.Contains(r.stdout, "there is no link") || !strings.Contains(r.stdout, "open the device, in a new process") {
		t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

func TestBenchProcessesErrors(t *testing.T) {
	startable(t)
	for _, c := range []struct {
		args string
		code int
		say  []string
	}{
		{"--procs 0", 2, []string{"--procs", "0", "16"}},
		{"--procs 17", 2, []string{"--procs", "17"}},
		{"--procs -1", 2, []string{"--procs", "-1"}},
		{"--procs many", 2, []string{"--procs", "many"}},
		{"--repeats 0", 2, []string{"--repeats", "0"}},
		{"--size 1", 2, []string{"--size", "16 KiB"}},
		{"--size big", 2, []string{"--size", "big"}},
		{"--device host:lots", 2, []string{"--device", "lots"}},
		{"--device cuda:0", 1, []string{"cuda", "unavailable"}},
		{"there", 2, []string{"there"}},
		{"--device host:1MiB --size 2MiB", 1, []string{"process 1", "--size", "out of device memory"}},
		{"--device host --size 8EB", 1, []string{"--size", "available"}},
	} {
		for _, args := range []string{c.args, c.args + " --json"} {
			checkMessage(t, args, pinion(t, strings.Fields("bench processes "+args)...), c.code, c.say)
		}
	}
	r := process(t, nil, "bench", "processes", "child")
	checkMessage(t, "started by hand", r, 1, []string{"only pinion itself"})

	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	r = pinionWith(t, cancelled, "bench", "processes", "--device", "host", "--size", "64KiB")
	if r.code != exitFailed || r.stdout != "" || r.stderr != "pinion: interrupted\n" {
		t.Errorf("cancelled: exit code %d, %q, %q", r.code, r.stdout, r.stderr)
	}
}

// An interrupt ends a run, in the middle of copies too.
func TestBenchProcessesInterrupt(t *testing.T) {
	startable(t)
	r := process(t, func(p *os.Process) {
		time.Sleep(300 * time.Millisecond) // most likely in the middle; right anywhere behind the start
		ok(t, p.Signal(os.Interrupt))
	}, "bench", "processes", "--device", "host", "--size", "64KiB", "--repeats", "1000000000", "--json")
	if r.code != exitFailed && r.code != -1 { // -1: killed before it listened
		t.Errorf("exit code %d", r.code)
	}
	if r.code == exitFailed && r.stderr != "pinion: interrupted\n" || r.stdout != "" {
		t.Errorf("%q, and on standard output %q", r.stderr, r.stdout)
	}
}

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
