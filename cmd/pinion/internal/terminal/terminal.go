// Package terminal fits text to the width of a terminal.
package terminal

import (
	"io"
	"os"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// Width returns the function that measures the columns of w, or nil where w is
// no terminal.
func Width(w io.Writer) func() int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return func() int {
		width, _, err := term.GetSize(int(f.Fd()))
		if err != nil || width <= 0 {
			return 80
		}
		return width
	}
}

// Fit returns text as it is to be written to w: on a terminal, its sentences are
// wrapped as by [Wrap]; elsewhere it stays as it is.
func Fit(w io.Writer, text string) string {
	if width := Width(w); width != nil {
		return Wrap(text, width())
	}
	return text
}

// columns separate the cells of a table, and a label from a command to copy.
const columns = "  "

// Wrap breaks the lines of text that are longer than width between words, and
// indents what follows by two spaces more than the line itself. Lines with two
// spaces between words are rows of a table, or commands to copy: they stay whole.
func Wrap(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		content := strings.TrimLeft(line, " ")
		if uniseg.StringWidth(line) > width && !strings.Contains(content, columns) {
			lines[i] = wrapLine(content, len(line)-len(content), width)
		}
	}
	return strings.Join(lines, "\n")
}

func wrapLine(content string, indent, width int) string {
	var out strings.Builder
	at := 0 // columns of the line so far; 0: nothing but indentation
	for word := range strings.SplitSeq(content, " ") {
		n := uniseg.StringWidth(word)
		switch {
		case out.Len() == 0:
			out.WriteString(strings.Repeat(" ", indent))
			at, indent = indent, indent+len(columns)
		case at+1+n > width:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			out.WriteString(" ")
			at++
		}
		out.WriteString(word)
		at += n
	}
	return out.String()
}

// Cut cuts text to so many columns, with "…" where something is missing.
func Cut(text string, columns int) string {
	if uniseg.StringWidth(text) <= columns {
		return text
	}
	var kept strings.Builder
	room := columns - 1
	for g := uniseg.NewGraphemes(text); g.Next(); {
		if room -= g.Width(); room < 0 {
			break
		}
		kept.WriteString(g.Str())
	}
	if columns < 1 {
		return ""
	}
	return kept.String() + "…"
}
