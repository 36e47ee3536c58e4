package graph

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
)

// ErrArgument says that an operation cannot be what was asked for: shapes that do not
// fit, a type that it has not, a value of another graph.
var ErrArgument = errs.ErrArgument

// Shape is the type of a value's elements and how many there are along each axis.
// Elements lie in row-major order without gaps. A scalar has no axes.
type Shape struct {
	Type dtype.DType
	Dims []int
}

// MakeShape returns a shape.
func MakeShape(t dtype.DType, dims ...int) Shape { return Shape{t, slices.Clone(dims)} }

// Rank is the number of axes.
func (s Shape) Rank() int { return len(s.Dims) }

// Size is the number of elements: 1 for a scalar, 0 where an axis has none.
func (s Shape) Size() int {
	n := 1
	for _, d := range s.Dims {
		n *= d
	}
	return n
}

// Bytes is the memory that the elements take.
func (s Shape) Bytes() int64 { return int64(s.Size()) * int64(s.Type.Size()) }

// Equal reports whether two shapes are the same, types included.
func (s Shape) Equal(o Shape) bool { return s.Type == o.Type && slices.Equal(s.Dims, o.Dims) }

// With returns the shape with elements of another type.
func (s Shape) With(t dtype.DType) Shape { return Shape{t, s.Dims} }

// String writes a shape as "f32[2,3]".
func (s Shape) String() string {
	var b strings.Builder
	b.WriteString(s.Type.String())
	b.WriteByte('[')
	for i, d := range s.Dims {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(d))
	}
	b.WriteByte(']')
	return b.String()
}

// mostBytes is the largest value that can be named, far from an overflow.
const mostBytes = math.MaxInt64 / 64

// Check fails for a shape that cannot be: without a type, or of too many elements.
func (s Shape) Check() error {
	if !s.Type.Valid() {
		return fmt.Errorf("shape %v has no type", s)
	}
	n := int64(s.Type.Size())
	empty := slices.Contains(s.Dims, 0)
	for i, d := range s.Dims {
		if d < 0 {
			return fmt.Errorf("axis %d of %v has %d elements", i, s, d)
		}
		if !empty && n > mostBytes/int64(max(d, 1)) {
			return fmt.Errorf("%v has too many elements", s)
		}
		if !empty {
			n *= int64(d)
		}
	}
	return nil
}

// broadcast is the shape that the dimensions of element-wise operands come to: scalars
// go with everything, others have the same rank, and an axis of 1 is repeated.
func broadcast(shapes ...Shape) ([]int, error) {
	var out []int
	found := false
	for _, s := range shapes {
		switch {
		case s.Rank() == 0:
		case !found:
			out, found = slices.Clone(s.Dims), true
		case len(out) != s.Rank():
			return nil, errors.New("the ranks differ")
		default:
			for i, d := range s.Dims {
				switch {
				case out[i] == 1:
					out[i] = d
				case d != 1 && d != out[i]:
					return nil, fmt.Errorf("axis %d has different lengths", i)
				}
			}
		}
	}
	return out, nil
}

func isSigned(t dtype.DType) bool {
	switch t {
	case dtype.I8, dtype.I16, dtype.I32, dtype.I64:
		return true
	}
	return t.IsFloat()
}

func isInt(t dtype.DType) bool { return t.Valid() && t != dtype.Bool && !t.IsFloat() }
