// Package texttable prints rows of cells in aligned columns. (text/tabwriter
// aligns all columns to the same side and knows no width of a terminal.)
package texttable

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// gap is between two columns.
const gap = "  "

// Table is rows under a heading. Rows may be shorter than the heading, but not
// longer.
type Table struct {
	right []bool // which columns are aligned to the right
	rows  []row
}

// row is cells, or a line of text across all columns.
type row struct {
	cells []string
	text  string
}

// New makes a table with a heading for each column. Columns whose heading
// starts with ">", which is not printed, are aligned to the right, as numbers
// are. A heading without any text is left out.
func New(headings ...string) *Table {
	t := &Table{right: make([]bool, len(headings))}
	head := make([]string, len(headings))
	for i, h := range headings {
		head[i], t.right[i] = strings.CutPrefix(h, ">")
	}
	if slices.ContainsFunc(head, func(h string) bool { return h != "" }) {
		t.Add(head...)
	}
	return t
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, row{cells: cells}) }

// Line adds a line of text between the rows. It makes no column wider.
func (t *Table) Line(text string) { t.rows = append(t.rows, row{text: text}) }

// Write prints the table to w.
func (t *Table) Write(w io.Writer) error {
	_, err := io.WriteString(w, t.String())
	return err
}

// WriteWidth prints the table to w in lines of at most width characters, as far
// as that is possible by wrapping the last column between its words.
func (t *Table) WriteWidth(w io.Writer, width int) error {
	_, err := io.WriteString(w, t.text(width))
	return err
}

// String returns what [Table.Write] prints.
func (t *Table) String() string { return t.text(0) }

func (t *Table) text(width int) string {
	widths := make([]int, len(t.right))
	for _, row := range t.rows {
		for i, cell := range row.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	last := len(widths) - 1
	left := 0 // of the last column
	for _, w := range widths[:max(last, 0)] {
		left += w + len(gap)
	}
	var text strings.Builder
	for _, r := range t.rows {
		if r.cells == nil {
			text.WriteString(r.text + "\n")
			continue
		}
		row := r.cells
		var more []string // lines of the last cell below its first
		if width > 0 && len(row) == len(widths) && last > 0 && !t.right[last] {
			row = slices.Clone(row)
			lines := wrap(row[last], max(width-left, minWrap))
			row[last], more = lines[0], lines[1:]
		}
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString(gap)
			}
			pad := strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0))
			if t.right[i] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		for _, rest := range more {
			text.WriteString(strings.Repeat(" ", left) + rest + "\n")
		}
	}
	return text.String()
}

// minWrap is the width that a wrapped column has at least, however narrow the
// terminal.
const minWrap = 12

// wrap breaks text between its words into lines of at most width characters, as
// far as the words allow. There is at least one line.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
