package parquet

import (
	"fmt"
	"slices"
	"strings"

	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/pinion-gpu/pinion/dataset"
)

// column is a leaf of a file's schema: what Parquet stores as one.
type column struct {
	name   string // as the user says it: without "list.element"
	index  int    // in the file
	number number
	kind   kind

	// Levels of definition. A value is there at max, and null below; in a
	// list, there is an element from list on, none at list-1, and no list
	// below.
	max, list int16
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
func (s *source) columns() (leaves []column, err error) {
	err = guard(func() error {
		for i := range s.footer.Schema.NumColumns() {
			leaves = append(leaves, newColumn(i, s.footer.Schema.Column(i)))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	return leaves, nil
}

func newColumn(index int, leaf *schema.Column) column {
	c := column{index: index, name: leaf.Path(), max: leaf.MaxDefinitionLevel()}
	n, numeric := numberOf(leaf)
	c.number = n
	switch {
	case leaf.MaxRepetitionLevel() == 1 && numeric:
		c.kind = list
	case leaf.MaxRepetitionLevel() > 0:
	case numeric:
		c.kind = scalar
	case leaf.PhysicalType() == pq.Types.ByteArray && (leaf.LogicalType() == nil || leaf.LogicalType().IsNone()):
		c.kind = blob // text says that it is text
	case leaf.PhysicalType() == pq.Types.ByteArray && isText(leaf.LogicalType()):
		c.kind = words
	}
	if c.kind == list {
		c.name, c.list = listLevels(leaf)
	}
	return c
}

// isText reports whether bytes are text.
func isText(t schema.LogicalType) bool {
	return t.Equals(schema.StringLogicalType{}) || t.Equals(schema.EnumLogicalType{})
}

// listLevels returns the name of a list, and the level of definition from
// which on it has an element. A list is a group around what is repeated; an old
// one is what is repeated itself. The columns of maps and of lists of structs
// keep their long names.
func listLevels(leaf *schema.Column) (name string, level int16) {
	var nodes []schema.Node // from the leaf to the top
	for n := leaf.SchemaNode(); n.Parent() != nil; n = n.Parent() {
		nodes = append(nodes, n)
	}
	var names []string
	for _, n := range slices.Backward(nodes) {
		if n.RepetitionType() != pq.Repetitions.Required {
			level++
		}
		if n.RepetitionType() == pq.Repetitions.Repeated {
			if g, ok := n.(*schema.GroupNode); ok && (g.NumFields() > 1 || g.Field(0) != leaf.SchemaNode()) {
				return leaf.Path(), level
			}
			if len(names) == 0 {
				names = []string{n.Name()}
			}
			break
		}
		names = append(names, n.Name())
	}
	return strings.Join(names, "."), level
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
