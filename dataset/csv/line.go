package csv

import (
	"bytes"

	"github.com/pinion-gpu/pinion/dataset/internal/lines"
	"github.com/pinion-gpu/pinion/dataset/internal/number"
)

// cutLine cuts the first line off text, without its end.
func cutLine(text []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(text, []byte{'\n'})
	return bytes.TrimRight(line, " \r"), rest
}

// skipped reports whether a line holds no row: it is blank or a comment.
func skipped(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return len(line) == 0 || line[0] == '#'
}

// delimiterOf guesses the delimiter from the first line: of those that occur
// the one that is the least likely to be part of a name or number.
func delimiterOf(line []byte) byte {
	quoted := false
	var seen [256]bool
	for _, c := range bytes.TrimSpace(line) {
		if c == '"' {
			quoted = !quoted
		}
		seen[c] = seen[c] || !quoted
	}
	for _, c := range []byte{'\t', ';', '|', ','} {
		if seen[c] {
			return c
		}
	}
	if seen[' '] {
		return ' '
	}
	return ','
}

// cutField cuts the first field off a line, without the blanks and quotes
// around it. With a blank as delimiter any number of blanks is one.
func cutField(line []byte, delimiter byte) (field, rest []byte, more bool) {
	blanks := " \t"
	if delimiter == '\t' {
		blanks = " "
	}
	line = bytes.TrimLeft(line, blanks)
	end := 0
	if len(line) > 0 && line[0] == '"' {
		if i := bytes.IndexByte(line[1:], '"'); i >= 0 {
			end = i + 2
		}
	}
	if delimiter == ' ' {
		i := bytes.IndexAny(line[end:], blanks)
		if i < 0 {
			return unquoted(line), nil, false
		}
		rest = bytes.TrimLeft(line[end+i:], blanks)
		return unquoted(line[:end+i]), rest, len(rest) > 0
	}
	i := bytes.IndexByte(line[end:], delimiter)
	if i < 0 {
		return unquoted(bytes.TrimRight(line, blanks)), nil, false
	}
	return unquoted(bytes.TrimRight(line[:end+i], blanks)), line[end+i+1:], true
}

func unquoted(field []byte) []byte {
	if n := len(field); n >= 2 && field[0] == '"' && field[n-1] == '"' {
		return bytes.TrimSpace(field[1 : n-1])
	}
	return field
}

// splitLine returns all fields of a line.
func splitLine(line []byte, delimiter byte) []string {
	var fields []string
	for {
		field, rest, more := cutField(line, delimiter)
		fields = append(fields, string(field))
		if !more {
			return fields
		}
		line = rest
	}
}

// numeric reports whether all fields are numbers.
func numeric(fields []string) bool {
	for _, f := range fields {
		if _, ok := number.Parse([]byte(f)); !ok {
			return false
		}
	}
	return true
}

// begins reports whether a file begins as rows of numbers: it is text, and
// the first or the second row is all numbers. Head may be the whole file.
func begins(head []byte, whole bool) bool {
	for _, c := range head {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	head = bytes.TrimPrefix(head, []byte(lines.ByteOrderMark))
	var delimiter byte
	for rows := 0; rows < 2 && len(head) > 0; {
		var line []byte
		if line, head = cutLine(head); skipped(line) {
			continue
		}
		if rows++; rows == 1 {
			delimiter = delimiterOf(line)
		}
		if len(head) == 0 && !whole { // the last field may be cut
			line = line[:max(bytes.LastIndexByte(line, delimiter), 0)]
		}
		if numeric(splitLine(line, delimiter)) {
			return true
		}
	}
	return false
}
