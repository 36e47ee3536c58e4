package doctor

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// ErrArgument: an option that cannot be right.
var ErrArgument = errs.ErrArgument

// Status is how a check ended.
type Status string

// The statuses, from the worst to the best.
const (
	Fail    Status = "fail"    // something is broken
	Warn    Status = "warn"    // something is slower or smaller than it could be
	Skipped Status = "skipped" // it could not be checked here
	OK      Status = "ok"
)

// Result is what a check says.
type Result struct {
	Status   Status `json:"status"`
	Measured string `json:"measured,omitempty"` // what is; nothing of a check that was skipped
	Why      string `json:"why,omitempty"`      // why it matters, in a sentence
	Remedy   string `json:"remedy,omitempty"`   // what to do; of Warn and Fail
	Reason   string `json:"reason,omitempty"`   // why it was skipped
}

// Check is one thing that is looked at.
type Check struct {
	Name   string   // as in a report: "link-width"
	Family string   // what it is about: one of Families
	Asks   string   // what it looks at, as people ask it
	gpu    bool     // only of a GPU with a link to the host
	needs  []string // probes
	run    func(*machine) Result
}

// Families are what checks are about, in the order in which they are printed.
var Families = []string{"driver", "link", "memory", "processors", "disk"}

// Checks lists all checks, family by family.
func Checks() []Check {
	return slices.Concat(driverChecks, gpuChecks, linkChecks, placementChecks, memoryChecks, processorChecks, diskChecks)
}

// choose keeps the checks that the options ask for. Names that there are not fail.
func choose(all []Check, only, skip []string) ([]Check, error) {
	for _, name := range slices.Concat(only, skip) {
		if !slices.ContainsFunc(all, func(c Check) bool { return c.Name == name }) {
			return nil, fmt.Errorf("doctor: %w: there is no check %q", ErrArgument, name)
		}
	}
	var list []Check
	for _, c := range all {
		if (len(only) == 0 || slices.Contains(only, c.Name)) && !slices.Contains(skip, c.Name) {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("doctor: %w: no check is left", ErrArgument)
	}
	return list, nil
}

// Makers of results. why and remedy are written where they are used.
func ok(measured, why string) Result { return Result{Status: OK, Measured: measured, Why: why} }

func warn(measured, why, remedy string) Result {
	return Result{Status: Warn, Measured: measured, Why: why, Remedy: remedy}
}

func fail(measured, why, remedy string) Result {
	return Result{Status: Fail, Measured: measured, Why: why, Remedy: remedy}
}

func skipped(format string, args ...any) Result {
	return Result{Status: Skipped, Reason: oneLine(fmt.Sprintf(format, args...))}
}

// oneLine is text on one line, with a question mark for what cannot be printed:
// files and drivers may say anything.
func oneLine(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\r', r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?")))
}

// onOneLine does that to all that r says.
func (r Result) onOneLine() Result {
	for _, text := range []*string{&r.Measured, &r.Why, &r.Remedy, &r.Reason} {
		*text = oneLine(*text)
	}
	return r
}
