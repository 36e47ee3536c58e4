package main

import (
	"fmt"
	"io"

	"github.com/pinion-gpu/pinion/internal/texttable"
)

// writeTable prints the rows for people, those of one name together.
func writeTable(out io.Writer, d *document) error {
	table := texttable.New("", ">", ">", ">", "", "")
	figure := func(v float64) string { return fmt.Sprintf("%.4g", v) }
	name := ""
	for _, r := range d.Rows {
		if r.Name != name {
			name = r.Name
			table.Line(name)
		}
		table.Add("    "+r.By, figure(r.Value), figure(r.Min), figure(r.Max), r.Unit, r.target.words(r.Value))
	}
	for _, s := range d.NotAvailable {
		if s.By != "" { // else it is a group
			s.Name += " by " + s.By
		}
		table.Line(fmt.Sprintf("not available: %s: %s", s.Name, s.Reason))
	}
	return table.Write(out)
}

// words say what v had to be, and whether it is.
func (t target) words(v float64) string {
	bound := ""
	switch {
	case t.AtLeast != nil:
		bound = fmt.Sprintf(">= %g", *t.AtLeast)
	case t.AtMost != nil:
		bound = fmt.Sprintf("<= %g", *t.AtMost)
	default:
		return ""
	}
	if t.reached(v) {
		return bound + " ok"
	}
	return bound + " MISSED"
}
