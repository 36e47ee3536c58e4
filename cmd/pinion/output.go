package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
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

// table lines up rows of cells. Columns whose heading starts with ">" are
// aligned to the right, without it.
type table struct {
	head []string
	rows [][]string
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer) {
	right := make([]bool, len(t.head))
	width := make([]int, len(t.head))
	head := make([]string, len(t.head))
	for i, h := range t.head {
		head[i], right[i] = strings.CutPrefix(h, ">")
	}
	all := append([][]string{head}, t.rows...)
	for _, row := range all {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if right[i] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
			line.WriteString("  ")
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// gib prints bytes as people read memory.
func gib(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// gb prints a rate that is in units of 10^9 bytes a second.
func gb(perSecond float64) string { return fmt.Sprintf("%.2f", perSecond) }

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// duration prints a time with three significant digits.
func duration(d time.Duration) string {
	value, unit := float64(d)/1e3, "µs"
	switch {
	case value >= 999.5e3:
		value, unit = value/1e6, "s"
	case value >= 999.5:
		value, unit = value/1e3, "ms"
	}
	return digits(value) + " " + unit
}

// digits prints a number with three significant digits, more where they stand
// before the point.
func digits(v float64) string {
	decimals := 2
	for limit := 9.995; v >= limit && decimals > 0; limit *= 10 {
		decimals--
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// counted prints a number of things: "1 batch", "2 batches".
func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

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
