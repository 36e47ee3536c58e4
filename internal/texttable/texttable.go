// Package texttable prints rows of cells in aligned columns, in lines that fit
// a terminal. Widths are those on a terminal, where Chinese characters take two
// columns and accents none. (text/tabwriter aligns all columns to the same side
// and knows no widths.)
package texttable

import (
	"io"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
)

// gap is between two columns. A space less is there where it would not fit else.
const gap = "  "

// Table is rows under a heading. Rows may be shorter than the heading, but not
// longer.
type Table struct {
	right  []bool // which columns are aligned to the right
	headed bool   // whether the first row is the heading
	rows   []row
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
	if t.headed = slices.ContainsFunc(head, func(h string) bool { return h != "" }); t.headed {
		t.Add(head...)
	}
	return t
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, row{cells: cells}) }

// Line adds a line of text between the rows. It makes no column wider.
func (t *Table) Line(text string) { t.rows = append(t.rows, row{text: text}) }

// Liner is a writer that knows how many columns a line has room for, as a
// terminal does. Zero is any number.
type Liner interface {
	io.Writer
	LineWidth() int
}

// Write prints the table to w, in lines as [Table.WriteWidth] makes them if w is
// a [Liner].
func (t *Table) Write(w io.Writer) error { return t.WriteWidth(w, 0) }

// WriteWidth prints the table to w in lines of at most width characters, or
// fewer if w is a [Liner]. Columns that are too wide are wrapped between words:
// text in all rows, numbers in the heading only. Where that does not do, each
// row becomes a list, a line for each cell behind its heading.
func (t *Table) WriteWidth(w io.Writer, width int) error {
	if l, ok := w.(Liner); ok && l.LineWidth() > 0 && (width == 0 || l.LineWidth() < width) {
		width = l.LineWidth()
	}
	_, err := io.WriteString(w, t.text(width))
	return err
}

// String returns the table in lines as long as they need to be.
func (t *Table) String() string { return t.text(0) }

// text returns the table in lines of at most width characters; 0 is any number.
func (t *Table) text(width int) string {
	gap := gap
	widths, fits := t.widths(width, gap)
	if !fits {
		gap = gap[1:]
		widths, fits = t.widths(width, gap)
	}
	if !fits && t.headed && len(widths) > 1 {
		return t.lists(width)
	}
	var text strings.Builder
	for _, r := range t.rows {
		if r.cells == nil {
			text.WriteString(r.text + "\n")
			continue
		}
		cells, height := make([][]string, len(r.cells)), 1
		for i, cell := range r.cells {
			cells[i] = wrap(cell, widths[i])
			height = max(height, len(cells[i]))
		}
		for y := range height {
			var line strings.Builder
			for i, lines := range cells {
				part := ""
				if y < len(lines) {
					part = lines[y]
				}
				if i > 0 {
					line.WriteString(gap)
				}
				pad := strings.Repeat(" ", max(widths[i]-uniseg.StringWidth(part), 0))
				if t.right[i] {
					line.WriteString(pad + part)
				} else {
					line.WriteString(part + pad)
				}
			}
			text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
	}
	return text.String()
}

// widths returns how wide the columns are, and whether a row has room in width
// characters then. The widest columns are made narrower first.
func (t *Table) widths(width int, gap string) (widths []int, fits bool) {
	widths, least := make([]int, len(t.right)), make([]int, len(t.right))
	for y, row := range t.rows {
		for i, cell := range row.cells {
			n := uniseg.StringWidth(cell)
			widths[i] = max(widths[i], n)
			if !t.right[i] || t.headed && y == 0 {
				n = longestWord(cell)
			}
			least[i] = max(least[i], n)
		}
	}
	total := len(gap) * max(len(widths)-1, 0)
	for _, w := range widths {
		total += w
	}
	for ; width > 0 && total > width; total-- {
		widest := -1
		for i, w := range widths {
			if w > least[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return widths, false
		}
		widths[widest]--
	}
	// Words leave some of that unused.
	used := make([]int, len(widths))
	for _, row := range t.rows {
		for i, cell := range row.cells {
			for _, line := range wrap(cell, widths[i]) {
				used[i] = max(used[i], uniseg.StringWidth(line))
			}
		}
	}
	return used, true
}

// lists returns the rows as lists under their first cells.
func (t *Table) lists(width int) string {
	head := t.rows[0].cells
	label := 0
	for _, h := range head[1:] {
		label = max(label, uniseg.StringWidth(h))
	}
	var text strings.Builder
	for _, r := range t.rows[1:] {
		if r.cells == nil {
			text.WriteString(r.text + "\n")
			continue
		}
		text.WriteString(strings.TrimPrefix(head[0]+gap+r.cells[0], gap) + "\n")
		for i, cell := range r.cells[1:] {
			if cell == "" {
				continue
			}
			h := head[i+1]
			left := gap + h + strings.Repeat(" ", label-uniseg.StringWidth(h)) + gap
			for _, part := range wrap(cell, max(width-uniseg.StringWidth(left), 1)) {
				text.WriteString(strings.TrimRight(left+part, " ") + "\n")
				left = strings.Repeat(" ", uniseg.StringWidth(left))
			}
		}
	}
	return text.String()
}

// indentation is the spaces that text begins with.
func indentation(text string) string { return text[:len(text)-len(strings.TrimLeft(text, " "))] }

// longestWord is how wide text is at least, with its indentation.
func longestWord(text string) int {
	n := 0
	for word := range strings.FieldsSeq(text) {
		n = max(n, uniseg.StringWidth(word))
	}
	return n + len(indentation(text))
}

// wrap breaks text between its words into lines of at most width characters, as
// far as the words allow. All lines are indented as the first is.
func wrap(text string, width int) []string {
	if uniseg.StringWidth(text) <= width {
		return []string{text}
	}
	indent := indentation(text)
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = indent + word
		case uniseg.StringWidth(line)+1+uniseg.StringWidth(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = indent + word
		}
	}
	return append(lines, line)
}
