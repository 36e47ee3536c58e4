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
// if it is one. It writes all at once, so that a full disk or a closed pipe is an
// error.
func PrintText(cmd *cobra.Command, print func(io.Writer)) error {
	var text bytes.Buffer
	print(&text)
	w := cmd.OutOrStdout()
	_, err := io.WriteString(w, terminal.Fit(w, text.String()))
	return err
}

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
