package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/terminal"
)

// JSONFlag adds --json to cmd.
func JSONFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print one JSON document")
}

// PrintJSON writes one document to standard output.
func PrintJSON(cmd *cobra.Command, v any) error {
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// PrintText writes what print prints to standard output, wrapped to the terminal
// if it is one, with tables that fit. It writes all at once, so that a full disk or
// a closed pipe is an error.
func PrintText(cmd *cobra.Command, print func(io.Writer)) error {
	w, width := cmd.OutOrStdout(), 0
	if measure := terminal.Width(w); measure != nil {
		width = measure()
	}
	_, err := io.WriteString(w, textFor(width, print))
	return err
}

// textFor returns what print prints for a terminal of that many columns; 0 is no
// terminal.
func textFor(width int, print func(io.Writer)) string {
	text := &lines{width: width}
	print(text)
	if width == 0 {
		return text.String()
	}
	return terminal.Wrap(text.String(), width)
}

// lines is text for a terminal.
type lines struct {
	bytes.Buffer
	width int
}

// LineWidth implements [texttable.Liner].
func (l *lines) LineWidth() int { return l.width }

// GBPerS prints a rate that is in units of 10^9 bytes a second.
func GBPerS(rate float64) string { return fmt.Sprintf("%.2f", rate) }

// ShellQuote writes a word as a shell takes it.
func ShellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
