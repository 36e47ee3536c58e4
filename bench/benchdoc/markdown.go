package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

const (
	beginMark = "<!-- results -->\n"
	endMark   = "<!-- /results -->\n"
)

// replace puts text between the markers of document, each of which must stand
// there once.
func replace(document, text string) (string, error) {
	head, rest, begins := strings.Cut(document, beginMark)
	_, tail, ends := strings.Cut(rest, endMark)
	if !begins || !ends || strings.Count(document, beginMark)+strings.Count(document, endMark) != 2 {
		return "", errors.New(`the lines "<!-- results -->" and "<!-- /results -->" have to stand there once each, in this order`)
	}
	return head + beginMark + text + endMark + tail, nil
}

// table is a Markdown table. Columns whose heading starts with ">" are
// aligned to the right, without it.
type table struct {
	head []string
	rows [][]string
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// has reports whether a row begins with this cell.
func (t *table) has(first string) bool {
	return slices.ContainsFunc(t.rows, func(cells []string) bool { return cells[0] == first })
}

// write writes the table, or nothing when it has no rows.
func (t *table) write(w *strings.Builder) {
	if len(t.rows) == 0 {
		return
	}
	head, rule := make([]string, len(t.head)), make([]string, len(t.head))
	for i, h := range t.head {
		name, right := strings.CutPrefix(h, ">")
		head[i], rule[i] = name, "---"
		if right {
			rule[i] = "--:"
		}
	}
	w.WriteByte('\n')
	for _, row := range append([][]string{head, rule}, t.rows...) {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
}

// plain makes text from a file harmless in a table cell.
func plain(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}

// number prints three significant digits, and all digits before the point.
func number(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 999.5:
		return units.Grouped(int64(math.Round(v)))
	case abs >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case abs >= 9.995:
		return fmt.Sprintf("%.1f", v)
	case abs >= 0.9995 || v == 0:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// duration prints a time in the unit that suits it.
func duration(seconds float64) string {
	switch {
	case seconds >= 0.9995:
		return number(seconds) + " s"
	case seconds >= 0.9995e-3:
		return number(seconds*1e3) + " ms"
	}
	return number(seconds*1e6) + " µs"
}
