package shard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	maxLabelText = 64      // bytes of a member that is one number
	maxLabelJSON = 1 << 20 // bytes of a member that has a field
)

// labelSource says where the label of a sample is.
type labelSource struct{ extension, field string }

// String tells sources apart in an index.
func (s labelSource) String() string { return s.extension + "\x00" + s.field }

// limit is the largest member that is looked at.
func (s labelSource) limit() int64 {
	if s.field == "" {
		return maxLabelText
	}
	return maxLabelJSON
}

// parse reads the label from the content of its member.
func (s labelSource) parse(content []byte) (int32, error) {
	text := string(bytes.TrimSpace(content))
	if s.field != "" {
		var err error
		if text, err = jsonField(content, s.field); err != nil {
			return 0, err
		}
	}
	v, err := strconv.ParseInt(text, 10, 32)
	if err != nil || v < -1 {
		return 0, fmt.Errorf("%w: the label is %.40q; want a whole number from -1 to 2147483647", ErrFormat, text)
	}
	return int32(v), nil
}

// jsonField returns the text of a number or a string in a JSON object.
func jsonField(content []byte, path string) (string, error) {
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", fmt.Errorf("%w: not JSON: %w", ErrFormat, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return "", fmt.Errorf("%w: more than one JSON value", ErrFormat)
	}
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		var ok bool
		if v, ok = object[name]; !ok {
			return "", fmt.Errorf("%w: no field %q on the path %q", ErrFormat, name, path)
		}
	}
	switch v := v.(type) {
	case json.Number:
		return v.String(), nil
	case string:
		return v, nil
	}
	return "", fmt.Errorf("%w: the field %q is no number", ErrFormat, path)
}
