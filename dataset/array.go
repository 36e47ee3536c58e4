package dataset

import (
	"fmt"
	"slices"
)

// array is samples of one form that are back to back somewhere.
type array struct {
	name   string
	labels []int32 // nil: none
	spec   Spec
	n      int
	sample int // bytes
}

// Len implements [Dataset].
func (d *array) Len() int { return d.n }

// Spec implements [Dataset].
func (d *array) Spec() Spec { return d.spec.Clone() }

// Name implements [Dataset]: the name of the whole and "[i]".
func (d *array) Name(i int) string { return fmt.Sprintf("%s[%d]", d.name, i) }

// Label implements [Dataset].
func (d *array) Label(i int) int32 {
	if d.labels == nil {
		return -1
	}
	return d.labels[i]
}

// Clone returns a spec that shares nothing with s.
func (s Spec) Clone() Spec {
	s.Shape = slices.Clone(s.Shape)
	return s
}

// alike reports whether samples of s and o can be in one dataset: they are of
// one shape, or ragged and of one shape but for axis 0.
func (s Spec) alike(o Spec) bool {
	a, b := s.Shape, o.Shape
	if s.Ragged && o.Ragged {
		a, b = a[1:], b[1:]
	}
	return s.DType == o.DType && s.Ragged == o.Ragged && slices.Equal(a, b)
}
