package jsonl

import (
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/names"
	"github.com/pinion-gpu/pinion/internal/jsonscan"
)

// memberNames returns the names of the fields of an object.
func memberNames(b []byte) (list []string) {
	for name := range jsonscan.Members(b) {
		list = append(list, string(name))
	}
	return list
}

// find returns the value at the end of a path of fields, and what follows
// it.
func find(b []byte, path []string) ([]byte, error) {
	for i, want := range path {
		if b[0] != '{' {
			return nil, fmt.Errorf("%w: %s, no object with a field %.80q%s", dataset.ErrFormat, describe(b), want, inField(path[:i]))
		}
		var found []byte
		for name, value := range jsonscan.Members(b) {
			switch {
			case string(name) != want:
			case found != nil:
				return nil, fmt.Errorf("%w: two fields %.80q%s", dataset.ErrFormat, want, inField(path[:i]))
			default:
				found = value
			}
		}
		if found == nil {
			return nil, fmt.Errorf("%w: no field %.80q%s; there are %s", dataset.ErrFormat, want, inField(path[:i]), names.Listed(memberNames(b)))
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

// describe says what kind of value b begins with.
func describe(b []byte) string {
	switch b[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f', 'n':
		return string(b[:len(b)-len(jsonscan.Skip(b))])
	}
	return fmt.Sprintf("the number %.40s", b[:len(b)-len(jsonscan.Skip(b))])
}
