package parquet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/parquet/internal/chunks"
)

// column is a leaf of a file's schema: what Parquet stores as one.
type column struct {
	name   string // as the user says it: without "list.element"
	index  int    // in the file
	leaf   *chunks.Node
	number number
	kind   kind

	// Levels of definition. A value is there at max, and null below; in a
	// list, there is an element from list on, none at list-1, and no list
	// below.
	max, list uint8
}

type kind int

const (
	other kind = iota // what is not read here
	scalar
	list // of numbers
	blob // bytes
	words
)

var kindNames = [...]string{other: "neither numbers nor bytes", scalar: "numbers", list: "lists of numbers", blob: "bytes", words: "text"}

// columns returns the leaves of a file's schema.
func (s *source) columns() (leaves []column) {
	for i, leaf := range s.footer.Leaves {
		leaves = append(leaves, newColumn(i, leaf))
	}
	return leaves
}

func newColumn(index int, leaf *chunks.Node) column {
	c := column{index: index, leaf: leaf, name: leaf.Path(), max: leaf.MaxDef}
	n, numeric := numberOf(leaf)
	c.number = n
	switch {
	case leaf.MaxRep == 1 && numeric:
		c.kind = list
	case leaf.MaxRep > 0:
	case numeric:
		c.kind = scalar
	case leaf.Type == chunks.ByteArray && leaf.Meaning == chunks.Plain:
		c.kind = blob // text says that it is text
	case leaf.Type == chunks.ByteArray && leaf.Meaning == chunks.Text:
		c.kind = words
	}
	if c.kind == list {
		c.name, c.list = listLevels(leaf)
	}
	return c
}

// listLevels returns the name of a list, and the level of definition from
// which on it has an element. A list is a group around what is repeated; an old
// one is what is repeated itself. The columns of maps and of lists of structs
// keep their long names.
func listLevels(leaf *chunks.Node) (name string, level uint8) {
	repeated := leaf
	for repeated.Repetition != chunks.Repeated {
		repeated = repeated.Parent
	}
	switch {
	case repeated == leaf || repeated.Children == 1 && leaf.Parent == repeated:
	default:
		return leaf.Path(), repeated.MaxDef
	}
	if list := repeated.Parent; list.Parent != nil {
		return list.Path(), repeated.MaxDef
	}
	return repeated.Name, repeated.MaxDef
}

// named returns the column of a name, which may be that of a struct where only
// one of its fields is of a kind.
func named(leaves []column, name string, kinds ...kind) (column, error) {
	var found []column
	for _, c := range leaves {
		if c.name == name {
			found = []column{c}
			break
		}
		if strings.HasPrefix(c.name, name+".") && slices.Contains(kinds, c.kind) {
			found = append(found, c)
		}
	}
	switch {
	case len(found) == 0:
		return column{}, fmt.Errorf("%w: no column %q; there are %s", dataset.ErrArgument, name, names(leaves))
	case len(found) > 1:
		return column{}, fmt.Errorf("%w: column %q may be any of %s", dataset.ErrArgument, name, names(found))
	case !slices.Contains(kinds, found[0].kind):
		return column{}, fmt.Errorf("%w: column %q is %s, want %s", dataset.ErrFormat, name, kindNames[found[0].kind], kindNames[kinds[0]])
	}
	return found[0], nil
}

// names lists columns in messages.
func names(leaves []column) string {
	var list []string
	for _, c := range leaves[:min(len(leaves), 20)] {
		list = append(list, fmt.Sprintf("%q", c.name))
	}
	if len(leaves) > 20 {
		list = append(list, fmt.Sprintf("and %d more", len(leaves)-20))
	}
	return strings.Join(list, ", ")
}
