package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// jsonFlag adds --json to cmd.
func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print one JSON document")
}

// printJSON writes one document to standard output.
func printJSON(cmd *cobra.Command, v any) error {
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printText writes what print prints to standard output, at once, so that a
// full disk or a closed pipe is an error.
func printText(cmd *cobra.Command, print func(io.Writer)) error {
	var text bytes.Buffer
	print(&text)
	_, err := cmd.OutOrStdout().Write(text.Bytes())
	return err
}

// gb prints a rate that is in units of 10^9 bytes a second.
func gb(perSecond float64) string { return fmt.Sprintf("%.2f", perSecond) }

// shellQuote writes a word as a shell takes it.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
