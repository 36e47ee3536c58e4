package pickle

// MaxDepth is how deep containers may be nested, in both directions.
const MaxDepth = 1000

// List is a Python list.
type List struct {
	Items []any
	depth int32 // see depth.go
}

// Tuple is a Python tuple.
type Tuple struct {
	Items []any
	depth int32
}

// Dict is a Python dict in insertion order. Where a key appears more than
// once, its last value counts, as in Python.
type Dict struct {
	Items []Item
	depth int32
}

// Item is one entry of a [Dict].
type Item struct{ Key, Value any }

// Get returns the value of a key that is a string, and whether there is one.
// It looks at every item: it is meant for records with a few fields.
func (d *Dict) Get(key string) (any, bool) {
	for i := len(d.Items) - 1; i >= 0; i-- {
		if k, ok := d.Items[i].Key.(string); ok && k == key {
			return d.Items[i].Value, true
		}
	}
	return nil, false
}
