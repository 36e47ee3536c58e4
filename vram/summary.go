package vram

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Summary is a table of s to read, as people know it from
// torch.cuda.memory_summary. It ends with a line feed.
func (s Stats) Summary() string {
	const none = "-"
	bytes := func(a Account) []string {
		return []string{sizeText(a.Current), sizeText(a.Peak), sizeText(a.Allocated), sizeText(a.Freed)}
	}
	row := func(name string, cells ...string) []string { return append([]string{name}, cells...) }
	rows := [][]string{
		row("", "current", "peak", "total allocated", "total freed"),
		row("requested", bytes(s.Requested)...),
		row("allocated", bytes(s.Allocated)...),
		row("active", bytes(s.Active)...),
		row("reserved", bytes(s.Reserved)...),
		row("free", sizeText(s.Free)),
		row("  stuck", sizeText(s.Stuck)),
		row("  largest piece", sizeText(s.LargestFree)),
		row("blocks", number(s.Blocks.Current), number(s.Blocks.Peak), number(s.Blocks.Allocated), number(s.Blocks.Freed)),
		nil,
		row("by purpose", "current", "peak", "total allocated", "total freed", "limit"),
	}
	used := false
	for i, p := range s.Purposes {
		if p.Allocated.Allocated == 0 {
			continue
		}
		limit := none
		if p.Limit != 0 {
			limit = sizeText(p.Limit)
		}
		rows = append(rows, append(row(Purpose(i).String(), bytes(p.Allocated)...), limit))
		used = true
	}
	if !used {
		rows = rows[:len(rows)-2]
	}
	chunks, budget := "whole segments", "what the device has"
	if s.ChunkBytes != 0 {
		chunks = sizeText(s.ChunkBytes)
	}
	if s.Budget != 0 {
		budget = sizeText(s.Budget)
	}
	var t strings.Builder
	writeTable(&t, 1, rows)
	t.WriteByte('\n')
	writeTable(&t, 2, [][]string{
		{"driver calls", fmt.Sprintf("%d: %d create, %d release, %d map, %d unmap",
			s.Calls.Total(), s.Calls.Create, s.Calls.Release, s.Calls.Map, s.Calls.Unmap)},
		{"retries", number(s.Retries)},
		{"out of memory", number(s.OutOfMemory)},
		{"fragmentation", s.fragmentationText()},
		{"chunk size", chunks},
		{"budget", budget},
	})
	return t.String()
}

func (s Stats) fragmentationText() string {
	if s.Reserved.Current <= 0 {
		return "none: nothing is reserved"
	}
	return fmt.Sprintf("%.1f %% of reserved is stuck", 100*s.Fragmentation())
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// sizeText is n bytes with three significant digits; below a KiB it is exact.
func sizeText(n int64) string {
	if n > -1024 && n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n) / 1024
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for len(units) > 1 && math.Abs(v) >= 1023.5 {
		v, units = v/1024, units[1:]
	}
	digits := 0
	switch {
	case math.Abs(v) < 9.995:
		digits = 2
	case math.Abs(v) < 99.95:
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, v, units[0])
}

// writeTable writes rows in columns, of which the first ones are aligned to the
// left and the others to the right. Rows may be short.
func writeTable(t *strings.Builder, left int, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < left {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		t.WriteString(strings.TrimRight(line.String(), " "))
		t.WriteByte('\n')
	}
}
