package chunks

import (
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
)

// Type is how values are stored.
type Type int32

// The types, with their numbers in files.
const (
	Boolean Type = iota
	Int32
	Int64
	Int96
	Float
	Double
	ByteArray
	FixedLenByteArray
)

// Repetition says how often a node is there in its parent.
type Repetition int32

// The repetitions, with their numbers in files.
const (
	Required Repetition = iota
	Optional
	Repeated
)

// Meaning is what the values of a leaf mean, as far as it matters here.
type Meaning int

// The meanings. Other is any that has no name here, also one that is newer than
// this package: a decimal, a date, a UUID.
const (
	Plain Meaning = iota // nothing beyond the type
	Text
	Whole // numbers of Node.Bits bits
	Half  // floats of 16 bits
	Other
)

// Node is an element of a schema. The root has no parent and is not part of
// names and levels.
type Node struct {
	Name       string
	Parent     *Node
	Repetition Repetition
	Children   int

	// Of a leaf:
	Type     Type
	Length   int32 // of values of FixedLenByteArray
	Meaning  Meaning
	Bits     int  // of Whole
	Unsigned bool // of Whole

	MaxDef, MaxRep uint8 // the greatest levels of definition and of repetition
}

// Path is the names from the top down, with dots between them.
func (n *Node) Path() string {
	var names []string
	for ; n.Parent != nil; n = n.Parent {
		names = append(names, n.Name)
	}
	for i, j := 0, len(names)-1; i < j; i, j = i+1, j-1 {
		names[i], names[j] = names[j], names[i]
	}
	return strings.Join(names, ".")
}

// element is a SchemaElement: a node in a list, depth first.
type element struct {
	Node
	isLeaf              bool
	children, converted int32
	hasLogical          bool
}

func (c *compact) schemaElement(kind byte) (e element, err error) {
	e.converted = -1
	err = c.structure(kind, 1, func(id int, kind byte) error {
		switch id {
		case 1:
			e.isLeaf = true
			return into(c, kind, &e.Type)
		case 2:
			return into(c, kind, &e.Length)
		case 3:
			return into(c, kind, &e.Repetition)
		case 4:
			name, err := c.binary(kind)
			e.Name = string(name)
			return err
		case 5:
			return into(c, kind, &e.children)
		case 6:
			return into(c, kind, &e.converted)
		case 10:
			e.hasLogical = true
			return c.logicalType(kind, &e)
		}
		return c.skip(kind, 1)
	})
	if err == nil && !e.hasLogical {
		e.convert()
	}
	return e, err
}

// logicalType reads a LogicalType: a struct with one field, which says which.
func (c *compact) logicalType(kind byte, e *element) error {
	e.Meaning = Other
	return c.structure(kind, 2, func(id int, kind byte) error {
		switch id {
		case 1, 4: // STRING, ENUM
			e.Meaning = Text
		case 10:
			e.Meaning, e.Unsigned = Whole, true
			return c.structure(kind, 3, func(id int, kind byte) (err error) {
				switch id {
				case 1:
					var bits int64
					bits, err = c.number(kind)
					e.Bits = int(bits)
				case 2:
					e.Unsigned = kind != isTrue
				default:
					err = c.skip(kind, 3)
				}
				return err
			})
		case 15:
			e.Meaning = Half
		}
		return c.skip(kind, 2)
	})
}

// convert takes the meaning from a ConvertedType, which older files have instead.
func (e *element) convert() {
	switch c := e.converted; {
	case c < 0:
	case c == 0 || c == 4: // UTF8, ENUM
		e.Meaning = Text
	case c >= 11 && c <= 14: // UINT_8 to UINT_64
		e.Meaning, e.Bits, e.Unsigned = Whole, 8<<(c-11), true
	case c >= 15 && c <= 18: // INT_8 to INT_64
		e.Meaning, e.Bits = Whole, 8<<(c-15)
	default:
		e.Meaning = Other
	}
}

var errSchema = fmt.Errorf("%w: the schema is no tree of columns", dataset.ErrDamaged)

// leaves makes a tree of the elements, and returns its leaves.
func leaves(elements []element) (found []*Node, err error) {
	if len(elements) == 0 || elements[0].isLeaf {
		return nil, errSchema
	}
	next := 0
	var walk func(parent *Node, depth int) error
	walk = func(parent *Node, depth int) error {
		if next == len(elements) || depth > maxDepth {
			return errSchema
		}
		e := &elements[next]
		next++
		n := &e.Node
		if n.Parent = parent; parent != nil {
			n.MaxDef, n.MaxRep = parent.MaxDef, parent.MaxRep
			switch n.Repetition {
			case Required:
			case Repeated:
				n.MaxRep++
				n.MaxDef++
			case Optional:
				n.MaxDef++
			default:
				return errSchema
			}
		}
		if e.isLeaf {
			if e.children != 0 {
				return errSchema
			}
			if n.Meaning == Whole && !n.whole() {
				n.Meaning = Other
			}
			found = append(found, n)
			return nil
		}
		if e.children < 0 || int(e.children) > len(elements)-next {
			return errSchema
		}
		n.Children = int(e.children)
		for range e.children {
			if err := walk(n, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(nil, 0); err != nil {
		return nil, err
	}
	if next != len(elements) {
		return nil, errSchema
	}
	return found, nil
}

// whole reports whether the numbers are of a size that there is.
func (n *Node) whole() bool {
	switch n.Bits {
	case 8, 16, 32:
		return n.Type == Int32
	case 64:
		return n.Type == Int64
	}
	return false
}
