// Package jsonscan walks through JSON text that [json.Valid] has accepted, where
// brackets match and strings end, without making values of it.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/names"
)

// Skip returns what follows the value that b begins with.
func Skip(b []byte) []byte {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c > ',' && c < '[': // digits, mostly
		case c == '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return b[i+1:]
			}
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth == 0 { // behind a number, true, false or null
				return b[i:]
			}
			if depth--; depth == 0 {
				return b[i+1:]
			}
		case depth == 0 && (c == ',' || c <= ' '):
			return b[i:]
		}
	}
	return nil
}

// Trim returns b without the blanks that it begins with.
func Trim(b []byte) []byte {
	for len(b) > 0 && b[0] <= ' ' {
		b = b[1:]
	}
	return b
}

// Members goes through the fields of the object that b begins with. A
// value is followed by the rest of b.
func Members(b []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for b := Trim(b[1:]); b[0] != '}'; {
			rest := Skip(b)
			name := b[1 : len(b)-len(rest)-1]
			if bytes.IndexByte(name, '\\') >= 0 {
				var s string
				json.Unmarshal(b[:len(b)-len(rest)], &s) // it is valid
				name = []byte(s)
			}
			value := Trim(Trim(rest)[1:]) // behind the colon
			if !yield(name, value) {
				return
			}
			if b = Trim(Skip(value)); b[0] == ',' {
				b = Trim(b[1:])
			}
		}
	}
}

// Names returns the names of the fields of an object.
func Names(b []byte) (names []string) {
	for name := range Members(b) {
		names = append(names, string(name))
	}
	return names
}

// Find returns the value at the end of a path of fields, and what follows
// it.
func Find(b []byte, path []string) ([]byte, error) {
	for i, want := range path {
		if b[0] != '{' {
			return nil, fmt.Errorf("%w: %s, no object with a field %.80q%s", dataset.ErrFormat, Describe(b), want, In(path[:i]))
		}
		var found []byte
		for name, value := range Members(b) {
			switch {
			case string(name) != want:
			case found != nil:
				return nil, fmt.Errorf("%w: two fields %.80q%s", dataset.ErrFormat, want, In(path[:i]))
			default:
				found = value
			}
		}
		if found == nil {
			return nil, fmt.Errorf("%w: no field %.80q%s; there are %s", dataset.ErrFormat, want, In(path[:i]), names.Listed(Names(b)))
		}
		b = found
	}
	return b, nil
}

// In says where something is, for messages.
func In(path []string) string {
	if len(path) == 0 {
		return ""
	}
	return fmt.Sprintf(" in field %.80q", strings.Join(path, "."))
}

// Describe says what kind of value b begins with.
func Describe(b []byte) string {
	switch b[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f', 'n':
		return string(b[:len(b)-len(Skip(b))])
	}
	return fmt.Sprintf("the number %.40s", b[:len(b)-len(Skip(b))])
}
