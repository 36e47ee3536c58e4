package labels

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pinion-gpu/pinion/dataset"
)

// Limits of the labels of samples in tars.
const (
	maxField = 1 << 20 // bytes of a member that has a field

	// MaxText is the longest text of a label in bytes.
	MaxText = 1 << 10
	// MaxClasses and MaxClassesBytes bound the distinct texts of a set.
	MaxClasses      = 1 << 18
	MaxClassesBytes = 16 << 20

	// captions is what to do about too many texts, or too long ones.
	captions = "captions and other free text are no classes: choose another label, a member or a field of its JSON (--label)"
)

// Source says where the label of a sample of a tar is.
type Source struct {
	Extension string // of the member
	Field     string // of that member, which is JSON; "": the member is the label
	// Fallback: in samples without such a member it is the field of that name in
	// the member json.
	Fallback bool
}

// NewSource returns the source that options say: a member, a field, both or none
// of them.
func NewSource(member, field string) Source {
	if field != "" {
		return Source{Extension: cmp.Or(member, "json"), Field: field}
	}
	const usual = "cls"
	member = cmp.Or(member, usual)
	return Source{Extension: member, Fallback: member != usual}
}

// String tells sources apart.
func (s Source) String() string { return s.Extension + "\x00" + s.Field }

// Default reports whether labels are those of the member cls.
func (s Source) Default() bool { return s == NewSource("", "") }

// Find returns how the label is read from a member with that extension, if it is
// there. A fallback counts only in samples without the member itself.
func (s Source) Find(extension string) (r Reader, ok bool) {
	switch {
	case strings.EqualFold(extension, s.Extension):
		return Reader{field: s.Field}, true
	case s.Fallback && strings.EqualFold(extension, "json"):
		return Reader{field: s.Extension, Fallback: true}, true
	}
	return Reader{}, false
}

// Reader reads a label from a member of a sample.
type Reader struct {
	field    string
	Fallback bool // the sample may have the member itself
}

// Value is one label: a number, or a text that is not empty.
type Value struct {
	Number int32
	Text   string
}

// Read reads the label from a member of that size. It fails with
// [dataset.ErrFormat] for what is no label and [dataset.ErrTooLarge] beyond a
// limit.
func (r Reader) Read(content io.Reader, size int64) (Value, error) {
	switch {
	case r.field == "" && size > MaxText:
		return Value{}, tooLong(size)
	case size > maxField:
		return Value{}, fmt.Errorf("%w: JSON of %d bytes that holds a label, the limit is %d", dataset.ErrTooLarge, size, maxField)
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return Value{}, err
	}
	text := string(data)
	if r.field != "" {
		if text, err = jsonField(data, r.field); err != nil {
			return Value{}, err
		}
	}
	return parse(strings.TrimSpace(text))
}

func tooLong(size int64) error {
	return fmt.Errorf("%w: a label of %d bytes, the limit is %d; %s", dataset.ErrTooLarge, size, MaxText, captions)
}

// parse tells numbers from text. What reads as a number and cannot be a class,
// such as 0.5, is an error and no text. An empty text is no label.
func parse(text string) (Value, error) {
	if text == "" {
		return Value{Number: -1}, nil
	}
	v, err := strconv.ParseInt(text, 10, 32)
	if err == nil && v >= -1 {
		return Value{Number: int32(v)}, nil
	}
	_, bad := strconv.ParseFloat(text, 64)
	number := (bad == nil || errors.Is(bad, strconv.ErrRange)) && strings.ContainsAny(text, "0123456789")
	switch {
	case number:
		return Value{}, fmt.Errorf("%w: the label is %.40q; want a whole number from -1 to 2147483647, or text", dataset.ErrFormat, text)
	case len(text) > MaxText:
		return Value{}, tooLong(int64(len(text)))
	case !utf8.ValidString(text):
		return Value{}, fmt.Errorf("%w: the label is %.40q; want a whole number, or text in UTF-8", dataset.ErrFormat, text)
	}
	return Value{Text: text}, nil
}

// jsonField returns the text of a number or a string in a JSON object.
func jsonField(content []byte, path string) (string, error) {
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", fmt.Errorf("%w: not JSON: %w", dataset.ErrFormat, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return "", fmt.Errorf("%w: more than one JSON value", dataset.ErrFormat)
	}
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		var ok bool
		if v, ok = object[name]; !ok {
			return "", fmt.Errorf("%w: no field %q on the path %q", dataset.ErrFormat, name, path)
		}
	}
	switch v := v.(type) {
	case json.Number:
		return v.String(), nil
	case string:
		return v, nil
	}
	return "", fmt.Errorf("%w: the field %q is neither a number nor text", dataset.ErrFormat, path)
}
