package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// writeTable prints the rows for people, those of one name together.
func writeTable(out io.Writer, d *document) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	name := ""
	for _, r := range d.Rows {
		if r.Name != name {
			name = r.Name
			fmt.Fprintf(w, "%s\n", name)
		}
		fmt.Fprintf(w, "    %s\t%.4g\t%.4g\t%.4g\t%s\t%s\n", r.By, r.Value, r.Min, r.Max, r.Unit, r.target.words(r.Value))
	}
	for _, s := range d.NotAvailable {
		if s.By != "" { // else it is a group
			s.Name += " by " + s.By
		}
		fmt.Fprintf(w, "not available: %s: %s\n", s.Name, s.Reason)
	}
	return w.Flush()
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
