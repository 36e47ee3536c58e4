package jsonscan

import (
	"bytes"
	"encoding/json"
	"iter"
)

// The functions of this file walk through text that [json.Valid] has accepted:
// brackets match and strings end.

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
			if depth == 0 { // after a number, true, false or null
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

// Trim returns b without leading blanks.
func Trim(b []byte) []byte {
	for len(b) > 0 && b[0] <= ' ' {
		b = b[1:]
	}
	return b
}

// Members returns the members of the object that b begins with. A value is
// followed by the rest of b: [Skip] tells where it ends.
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
			value := Trim(Trim(rest)[1:]) // after the colon
			if !yield(name, value) {
				return
			}
			if b = Trim(Skip(value)); b[0] == ',' {
				b = Trim(b[1:])
			}
		}
	}
}
