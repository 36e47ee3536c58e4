package dataset

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/dtype"
)

// The functions of this file walk through JSON that [json.Valid] has
// accepted: brackets match and strings end.

// skipJSON returns what follows the value that b begins with.
func skipJSON(b []byte) []byte {
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

// trimJSON returns b without the blanks that it begins with.
func trimJSON(b []byte) []byte {
	for len(b) > 0 && b[0] <= ' ' {
		b = b[1:]
	}
	return b
}

// jsonMembers goes through the fields of the object that b begins with. A
// value is followed by the rest of b.
func jsonMembers(b []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for b := trimJSON(b[1:]); b[0] != '}'; {
			rest := skipJSON(b)
			name := b[1 : len(b)-len(rest)-1]
			if bytes.IndexByte(name, '\\') >= 0 {
				var s string
				json.Unmarshal(b[:len(b)-len(rest)], &s) // it is valid
				name = []byte(s)
			}
			value := trimJSON(trimJSON(rest)[1:]) // behind the colon
			if !yield(name, value) {
				return
			}
			if b = trimJSON(skipJSON(value)); b[0] == ',' {
				b = trimJSON(b[1:])
			}
		}
	}
}

// jsonNames returns the names of the fields of an object.
func jsonNames(b []byte) (names []string) {
	for name := range jsonMembers(b) {
		names = append(names, string(name))
	}
	return names
}

// findJSON returns the value at the end of a path of fields, and what follows
// it.
func findJSON(b []byte, path []string) ([]byte, error) {
	for i, want := range path {
		if b[0] != '{' {
			return nil, fmt.Errorf("%w: %s, no object with a field %.80q%s", ErrFormat, describeJSON(b), want, inField(path[:i]))
		}
		var found []byte
		for name, value := range jsonMembers(b) {
			switch {
			case string(name) != want:
			case found != nil:
				return nil, fmt.Errorf("%w: two fields %.80q%s", ErrFormat, want, inField(path[:i]))
			default:
				found = value
			}
		}
		if found == nil {
			return nil, fmt.Errorf("%w: no field %.80q%s; there are %s", ErrFormat, want, inField(path[:i]), listed(jsonNames(b)))
		}
		b = found
	}
	return b, nil
}

// inField says where something is, for messages.
func inField(path []string) string {
	if len(path) == 0 {
		return ""
	}
	return fmt.Sprintf(" in field %.80q", strings.Join(path, "."))
}

// describeJSON says what kind of value b begins with.
func describeJSON(b []byte) string {
	switch b[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f', 'n':
		return string(b[:len(b)-len(skipJSON(b))])
	}
	return fmt.Sprintf("the number %.40s", b[:len(b)-len(skipJSON(b))])
}

// maxJSONAxes is more than any tensor has.
const maxJSONAxes = 32

// jsonNumbers collects the numbers of a value.
type jsonNumbers struct {
	dtype dtype.DType
	data  []byte
	axes  [maxJSONAxes]int // lengths of arrays by depth; -1: not known yet
	depth int              // of the numbers; -1: not known yet
}

// read appends the numbers of the value that b begins with to the data, and
// returns its shape. An empty array has the shape [0].
func (n *jsonNumbers) read(b []byte) (shape []int, err error) {
	n.depth = -1
	for i := range n.axes {
		n.axes[i] = -1
	}
	if _, err := n.value(b, 0); err != nil {
		return nil, err
	}
	if n.depth < 0 { // arrays of nothing
		n.depth = 1
		for n.depth < maxJSONAxes && n.axes[n.depth] >= 0 {
			n.depth++
		}
	}
	return n.axes[:n.depth], nil
}

func (n *jsonNumbers) value(b []byte, depth int) (rest []byte, err error) {
	if b[0] != '[' {
		if b[0] != '-' && b[0]-'0' > 9 {
			return nil, fmt.Errorf("%w: %s; want numbers", ErrFormat, describeJSON(b))
		}
		if n.depth < 0 {
			n.depth = depth
		}
		if n.depth != depth || depth < maxJSONAxes && n.axes[depth] >= 0 {
			return nil, fmt.Errorf("%w: numbers beside arrays", ErrFormat)
		}
		return n.number(b)
	}
	if depth == maxJSONAxes {
		return nil, fmt.Errorf("%w: arrays of more than %d axes", ErrTooLarge, maxJSONAxes)
	}
	if n.depth >= 0 && depth >= n.depth {
		return nil, fmt.Errorf("%w: arrays beside numbers", ErrFormat)
	}
	length := 0
	for b = trimJSON(b[1:]); b[0] != ']'; length++ {
		if b, err = n.value(b, depth+1); err != nil {
			return nil, err
		}
		if b = trimJSON(b); b[0] == ',' {
			b = trimJSON(b[1:])
		}
	}
	if n.axes[depth] < 0 {
		n.axes[depth] = length
	}
	if n.axes[depth] != length {
		return nil, fmt.Errorf("%w: arrays of %d and of %d elements beside each other", ErrFormat, n.axes[depth], length)
	}
	return b[1:], nil
}

// number appends the number that b begins with.
func (n *jsonNumbers) number(b []byte) (rest []byte, err error) {
	v, end, ok := scanNumber(b)
	if !ok {
		end = len(b) - len(skipJSON(b))
		if v, ok = parseNumber(b[:end]); !ok {
			return nil, fmt.Errorf("%w: %.40s does not fit f64", ErrFormat, b[:end])
		}
	}
	switch n.dtype {
	case dtype.F32:
		single := float32(v)
		if math.IsInf(float64(single), 0) {
			return nil, fmt.Errorf("%w: %.40s does not fit f32", ErrFormat, b[:end])
		}
		n.data = binary.LittleEndian.AppendUint32(n.data, math.Float32bits(single))
	case dtype.F64:
		n.data = binary.LittleEndian.AppendUint64(n.data, math.Float64bits(v))
	default:
		whole, err := wholeNumber(b[:end], v, 8*n.dtype.Size())
		if err != nil {
			return nil, err
		}
		if n.dtype == dtype.I32 {
			n.data = binary.LittleEndian.AppendUint32(n.data, uint32(whole))
		} else {
			n.data = binary.LittleEndian.AppendUint64(n.data, uint64(whole))
		}
	}
	return b[end:], nil
}

// wholeNumber converts a number of that text and value.
func wholeNumber(text []byte, v float64, bits int) (int64, error) {
	whole := int64(v)
	ok := v == math.Trunc(v) && math.Abs(v) < 1<<53
	if !ok { // float64 may have rounded it
		var err error
		whole, err = strconv.ParseInt(string(text), 10, 64)
		ok = err == nil
	}
	if unused := 64 - bits; !ok || whole<<unused>>unused != whole {
		return 0, fmt.Errorf("%w: %.40s is no whole number of %d bits", ErrFormat, text, bits)
	}
	return whole, nil
}

// jsonLabel returns the label in a field of a line.
func jsonLabel(line []byte, path []string) (int32, error) {
	b, err := findJSON(line, path)
	if err != nil {
		return 0, err
	}
	text := b[:len(b)-len(skipJSON(b))]
	v, ok := parseNumber(text)
	if !ok {
		return 0, fmt.Errorf("%w: %s; want a whole number%s", ErrFormat, describeJSON(b), inField(path))
	}
	label, err := wholeNumber(text, v, 32)
	if err != nil {
		return 0, fmt.Errorf("%w%s", err, inField(path))
	}
	return int32(label), nil
}

// jsonHead reports whether a file begins as JSON lines: the first line is an
// object or an array, and ends where its line ends.
func jsonHead(head []byte, whole bool) bool {
	for len(head) > 0 {
		line, rest := jsonLine(head)
		if len(line) == 0 {
			head = rest
			continue
		}
		if line[0] != '{' && line[0] != '[' {
			return false
		}
		return json.Valid(line) || len(rest) == 0 && !whole
	}
	return false
}
