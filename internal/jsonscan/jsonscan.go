// Package jsonscan splits a JSON object into its members without decoding the
// ones that nobody asks for. encoding/json takes about ten times as long for a
// short line.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// Object calls member for each member of the object that text consists of, in
// order. key is the name without quotes, value the text of any valid JSON value;
// both are valid until member returns. Object stops at the first error, of member
// or of text, which then says what is missing, and at which column.
func Object(text []byte, member func(key, value []byte) error) error {
	s := scanner{in: text}
	if err := s.want('{'); err != nil {
		return err
	}
	for first := true; s.peek() != '}'; first = false {
		if !first {
			if err := s.want(','); err != nil {
				return err
			}
		}
		key, err := s.string()
		if err != nil {
			return err
		}
		if err := s.want(':'); err != nil {
			return err
		}
		value, err := s.value()
		if err != nil {
			return err
		}
		if err := member(key, value); err != nil {
			return err
		}
	}
	s.at++
	if s.peek() != 0 || s.at < len(s.in) {
		return fmt.Errorf("%q after the object", s.in[s.at:min(s.at+20, len(s.in))])
	}
	return nil
}

// scanner reads text from at on.
type scanner struct {
	in []byte
	at int
}

// peek returns the next byte that is not a space, or 0 at the end.
func (s *scanner) peek() byte {
	for s.at < len(s.in) {
		switch c := s.in[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) want(c byte) error {
	if got := s.peek(); got != c {
		return s.unexpected(fmt.Sprintf("%q", c))
	}
	s.at++
	return nil
}

func (s *scanner) unexpected(wanted string) error {
	if s.at >= len(s.in) {
		return fmt.Errorf("%s is missing at the end", wanted)
	}
	return fmt.Errorf("%s is missing at column %d", wanted, s.at+1)
}

// string reads the text of a string.
func (s *scanner) string() ([]byte, error) {
	raw, err := s.quoted()
	if err != nil {
		return nil, err
	}
	return Unquote(raw)
}

// quoted reads a string with its quotes.
func (s *scanner) quoted() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.unexpected("a string")
	}
	for end := s.at + 1; end < len(s.in); end++ {
		switch s.in[end] {
		case '\\':
			end++
		case '"':
			raw := s.in[s.at : end+1]
			s.at = end + 1
			return raw, nil
		}
	}
	return nil, s.unexpected("the end of a string")
}

// value reads any value and returns its text.
func (s *scanner) value() ([]byte, error) {
	switch s.peek() {
	case '"':
		raw, err := s.quoted()
		if err == nil && !Plain(raw[1:len(raw)-1]) && !json.Valid(raw) {
			err = notString(raw)
		}
		return raw, err
	case '{', '[':
		return s.nested()
	}
	start := s.at
	for s.at < len(s.in) && !bytes.ContainsRune([]byte(",}] \t\r\n"), rune(s.in[s.at])) {
		s.at++
	}
	raw := s.in[start:s.at]
	if !digits(raw) && !json.Valid(raw) {
		s.at = start
		return nil, s.unexpected("a value")
	}
	return raw, nil
}

// nested reads an object or an array.
func (s *scanner) nested() ([]byte, error) {
	start, depth := s.at, 0
	for s.at < len(s.in) {
		switch s.in[s.at] {
		case '"':
			if _, err := s.quoted(); err != nil {
				return nil, err
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.at++
		if depth == 0 {
			raw := s.in[start:s.at]
			if !json.Valid(raw) {
				s.at = start
				return nil, s.unexpected("a value")
			}
			return raw, nil
		}
	}
	return nil, s.unexpected("the end of a value")
}

// digits reports whether the value is an integer without a sign, as most are.
func digits(raw []byte) bool {
	_, ok := ParseUint(raw)
	return ok && (raw[0] != '0' || len(raw) == 1)
}

// ParseUint reads decimal digits and nothing else.
func ParseUint(text []byte) (u uint64, ok bool) {
	for _, c := range text {
		digit := uint64(c - '0')
		if digit > 9 || u > (math.MaxUint64-digit)/10 {
			return 0, false
		}
		u = 10*u + digit
	}
	return u, len(text) > 0
}

// Unquote returns the text of a string that has its quotes. Almost every string
// is what stands between them.
func Unquote(raw []byte) ([]byte, error) {
	if text := raw[1 : len(raw)-1]; Plain(text) {
		return text, nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, notString(raw)
	}
	return []byte(s), nil
}

func notString(raw []byte) error { return fmt.Errorf("%.40s is not a JSON string", raw) }

// Plain reports whether a text stands in a JSON string as it is.
func Plain[T string | []byte](text T) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			return false
		}
	}
	return true
}
