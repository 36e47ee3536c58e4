package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/internal/panicked"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Options say what is checked. The zero value checks all, without probes.
type Options struct {
	// Device names the device, as device.Open takes it. Default: "auto", the
	// best one.
	Device string

	// Path is where data lies, a file or a folder: its disk and file system
	// are looked at. Default: the current folder.
	Path string

	// Only and Skip are names of checks: those that run (default: all), and
	// those that do not.
	Only, Skip []string

	// Child are the arguments with which this executable calls [Child]. The
	// name of a probe and a request follow them. Default: none; checks that
	// need a probe are skipped.
	Child []string

	// Progress, if set, is called before each probe and each check.
	Progress func(done, total int, what string)
}

// Limits in time.
const (
	totalLimit = 18 * time.Second // of all probes: checks that need later ones are skipped
	checkLimit = 2 * time.Second  // of one check, without its probes
)

// Report is the outcome of a run.
type Report struct {
	provenance.Record
	Seconds float64   `json:"seconds"` // that the run took
	Path    string    `json:"path"`    // as in Options
	Checks  []Finding `json:"checks"`  // in the order of Checks
}

// Finding is a check and what it said.
type Finding struct {
	Name   string `json:"name"`
	Family string `json:"family"`
	Result
}

// Failed reports whether any check failed.
func (r *Report) Failed() bool { return r.Count(Fail) > 0 }

// Count is the number of checks that ended so.
func (r *Report) Count(s Status) (n int) {
	for _, f := range r.Checks {
		if f.Status == s {
			n++
		}
	}
	return n
}

// Run runs the checks, and takes less than 20 seconds. It fails with [ErrArgument]
// for names that no check or device has, and with ctx's error within a second
// when ctx ends; what a check finds is no error.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Device == "" {
		o.Device = "auto"
	}
	if o.Path == "" {
		o.Path = "."
	}
	checks, err := choose(Checks(), o.Only, o.Skip)
	if err != nil {
		return nil, err
	}
	m := newMachine(thisSystem(), o)
	if len(o.Child) > 0 {
		m.start = o.startChild
	}
	return run(ctx, m, checks, o.Progress)
}

// run checks a machine.
func run(ctx context.Context, m *machine, checks []Check, progress func(done, total int, what string)) (*Report, error) {
	begin := time.Now()
	m.checks = checks
	r := &Report{Record: provenance.Now(), Path: m.request.Path}
	for i, c := range checks {
		say := func(what string) {
			if progress != nil {
				progress(i, len(checks), what)
			}
		}
		say(c.Name)
		result := m.check(ctx, c, say).onOneLine()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if d := m.device.facts; d.NoName {
			return nil, fmt.Errorf("doctor: %w: device %q: %s", ErrArgument, m.request.Device, strings.ReplaceAll(d.Error, ErrArgument.Error()+": ", ""))
		}
		r.Checks = append(r.Checks, Finding{c.Name, c.Family, result})
	}
	if d := m.device.facts; d.Info.ID != "" {
		r.Record = r.Record.On(d.Info.ID, d.Info.Name)
	}
	r.Seconds = time.Since(begin).Seconds()
	return r, nil
}

// check runs the probes that c needs, and c.
func (m *machine) check(ctx context.Context, c Check, say func(string)) Result {
	needs := c.needs
	// Where opening the device hangs, what opens it again would hang, too.
	if c.gpu || slices.Contains(needs, "copies") || slices.Contains(needs, "files") {
		needs = append([]string{"device"}, needs...)
	}
	for _, need := range needs {
		p := m.probe(need)
		p.gather(ctx, m, say)
		if r, instead := p.instead(c.Name); instead {
			return r
		}
		if c.gpu && !m.hasGPU() {
			return m.noGPU()
		}
	}
	done := make(chan Result, 1)
	go func() { // abandoned where a file of the system does not answer
		defer func() {
			if p := recover(); p != nil {
				done <- fail(oneLine(panicked.Error(p).Error()), "The check itself is wrong.",
					fmt.Sprintf("Report it, with the output of `pinion doctor --only %s --json`.", c.Name))
			}
		}()
		done <- c.run(m)
	}()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
		return Result{} // and the run ends
	case <-time.After(checkLimit):
		select {
		case r := <-done: // this process was not run for so long
			return r
		default:
		}
		return fail("no answer within "+units.Duration(checkLimit), "A file of the system that does not answer holds up every program that reads it.",
			"Look for hung file systems: `dmesg | tail -50`, and processes in state D: `ps -eo pid,stat,wchan,comm | grep ' D'`.")
	}
}
