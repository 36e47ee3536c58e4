package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

// textWidth is how wide the text is: what a terminal has at least.
const textWidth = 80

// Write prints the report for people: what was measured, family by family, with
// why it matters and what to do where something is wrong; then what was skipped,
// and how many checks ended how.
func (r *Report) Write(w io.Writer) error {
	table := texttable.New("", "", "")
	for _, family := range Families {
		rows := slices.DeleteFunc(slices.Clone(r.Checks), func(f Finding) bool {
			return f.Family != family || f.Status == Skipped
		})
		if len(rows) == 0 {
			continue
		}
		table.Line(strings.ToUpper(family))
		for _, f := range rows {
			table.Add(string(f.Status), f.Name, f.Measured)
			if f.Status == OK {
				continue
			}
			table.Add("", "", "why: "+f.Why)
			table.Add("", "", "do: "+f.Remedy)
		}
		table.Line("")
	}
	if err := table.WriteWidth(w, textWidth); err != nil {
		return err
	}
	if err := r.writeSkipped(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, r.summary())
	return err
}

// writeSkipped lists what was skipped, a row for each reason.
func (r *Report) writeSkipped(w io.Writer) error {
	var reasons []string
	names := map[string][]string{}
	for _, f := range r.Checks {
		if f.Status != Skipped {
			continue
		}
		if names[f.Reason] == nil {
			reasons = append(reasons, f.Reason)
		}
		names[f.Reason] = append(names[f.Reason], f.Name)
	}
	if len(reasons) == 0 {
		return nil
	}
	table := texttable.New("", "")
	table.Line("SKIPPED")
	for _, reason := range reasons {
		table.Add(reason, strings.Join(names[reason], ", "))
	}
	table.Line("")
	return table.WriteWidth(w, textWidth)
}

func (r *Report) summary() string {
	var parts []string
	for _, s := range []struct {
		status    Status
		one, many string
	}{{Fail, "failed", "failed"}, {Warn, "warning", "warnings"}, {OK, "ok", "ok"}, {Skipped, "skipped", "skipped"}} {
		switch n := r.Count(s.status); n {
		case 0:
		case 1:
			parts = append(parts, "1 "+s.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, s.many))
		}
	}
	return fmt.Sprintf("%s in %s: %s.", units.Count(len(r.Checks), "check"), units.Seconds(r.Seconds), strings.Join(parts, ", "))
}
