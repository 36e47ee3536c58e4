package jsonl

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/number"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/jsonscan"
	"github.com/pinion-gpu/pinion/internal/units"
)

// maxAxes is more than any tensor has.
const maxAxes = 32

// numbers collects the numbers of a value.
type numbers struct {
	dtype dtype.DType
	data  []byte
	axes  [maxAxes]int // lengths of arrays by depth; -1: not known yet
	depth int          // of the numbers; -1: not known yet
}

// read appends the numbers of the value that b begins with to the data, and
// returns its shape. An empty array has the shape [0].
func (n *numbers) read(b []byte) (shape []int, err error) {
	n.depth = -1
	for i := range n.axes {
		n.axes[i] = -1
	}
	if _, err := n.value(b, 0); err != nil {
		return nil, err
	}
	if n.depth < 0 { // arrays of nothing
		n.depth = 1
		for n.depth < maxAxes && n.axes[n.depth] >= 0 {
			n.depth++
		}
	}
	return n.axes[:n.depth], nil
}

func (n *numbers) value(b []byte, depth int) (rest []byte, err error) {
	if b[0] != '[' {
		if b[0] != '-' && b[0]-'0' > 9 {
			return nil, fmt.Errorf("%w: %s; want numbers", dataset.ErrFormat, describe(b))
		}
		if n.depth < 0 {
			n.depth = depth
		}
		if n.depth != depth || depth < maxAxes && n.axes[depth] >= 0 {
			return nil, fmt.Errorf("%w: numbers mixed with arrays", dataset.ErrFormat)
		}
		return n.number(b)
	}
	if depth == maxAxes {
		return nil, fmt.Errorf("%w: arrays of more than %d axes", dataset.ErrTooLarge, maxAxes)
	}
	if n.depth >= 0 && depth >= n.depth {
		return nil, fmt.Errorf("%w: arrays mixed with numbers", dataset.ErrFormat)
	}
	length := 0
	for b = jsonscan.Trim(b[1:]); b[0] != ']'; length++ {
		if b, err = n.value(b, depth+1); err != nil {
			return nil, err
		}
		if b = jsonscan.Trim(b); b[0] == ',' {
			b = jsonscan.Trim(b[1:])
		}
	}
	if n.axes[depth] < 0 {
		n.axes[depth] = length
	}
	if n.axes[depth] != length {
		return nil, fmt.Errorf("%w: arrays of %d and %d elements side by side", dataset.ErrFormat, n.axes[depth], length)
	}
	return b[1:], nil
}

// number appends the number that b begins with.
func (n *numbers) number(b []byte) (rest []byte, err error) {
	v, end, ok := number.Scan(b)
	if !ok {
		end = len(b) - len(jsonscan.Skip(b))
		if v, ok = number.Parse(b[:end]); !ok {
			return nil, fmt.Errorf("%w: %.40s does not fit f64", dataset.ErrFormat, b[:end])
		}
	}
	switch n.dtype {
	case dtype.F32:
		single := float32(v)
		if math.IsInf(float64(single), 0) {
			return nil, fmt.Errorf("%w: %.40s does not fit f32", dataset.ErrFormat, b[:end])
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
		return 0, fmt.Errorf("%w: %.40s is not a whole number of %d bits", dataset.ErrFormat, text, bits)
	}
	return whole, nil
}

// label adds the label in a field of a line: a number, several of them, or a text.
// The first one says which, for all of a block.
func (b *block) label(line []byte, path []string) error {
	value, err := find(line, path)
	if err != nil {
		return err
	}
	text := value[:len(value)-len(jsonscan.Skip(value))]
	if text[0] == '"' {
		var name string
		if err := json.Unmarshal(text, &name); err != nil {
			return fmt.Errorf("%w: %w%s", dataset.ErrFormat, err, inField(path))
		}
		return b.like(true, 0, path, func() error { b.labels.Name(name); return nil })
	}
	n := numbers{dtype: dtype.F64, data: b.labelNumbers[:0]}
	shape, err := n.read(text)
	b.labelNumbers = n.data
	if err != nil {
		return fmt.Errorf("%w%s", err, inField(path))
	}
	width := 1
	switch {
	case len(shape) > 1 || len(shape) == 1 && shape[0] == 0:
		return fmt.Errorf("%w: labels of shape %v; want a number, a text or a list of numbers%s", dataset.ErrFormat, shape, inField(path))
	case len(shape) == 1:
		width = shape[0]
	}
	return b.like(false, width, path, func() error {
		for data := n.data; len(data) > 0; data = data[8:] {
			if err := b.labels.Number(math.Float64frombits(binary.LittleEndian.Uint64(data))); err != nil {
				return fmt.Errorf("%w%s", err, inField(path))
			}
		}
		return nil
	})
}

// like calls add, if a label is of the kind of the first one.
func (b *block) like(text bool, width int, path []string, add func() error) error {
	if l := &b.labels; !l.Text && l.Width == 0 {
		l.Text, l.Width = text, width
	}
	if text != b.labels.Text || width != b.labels.Width {
		return fmt.Errorf("%w: labels of %s mixed with labels of %s%s", dataset.ErrFormat, labelKind(text, width), labelKind(b.labels.Text, b.labels.Width), inField(path))
	}
	return add()
}

func labelKind(text bool, width int) string {
	if text {
		return "text"
	}
	return units.Count(width, "number")
}

// begins reports whether a file begins as JSON lines: the first line is an
// object or an array, and ends where its line ends.
func begins(head []byte, whole bool) bool {
	for len(head) > 0 {
		line, rest := cutLine(head)
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
