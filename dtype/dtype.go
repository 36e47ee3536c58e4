package dtype

import (
	"errors"
	"fmt"
	"strings"
)

// DType is the type of one element. The zero value is none of them.
type DType uint8

// The element types. BF16 is bfloat16: the upper half of a float32.
const (
	U8 DType = iota + 1
	I8
	U16
	I16
	I32
	I64
	F16
	BF16
	F32
	F64
	U32
	U64
	Bool // one byte, 0 or 1
)

// ErrUnknown: no element type has that name.
var ErrUnknown = errors.New("unknown dtype")

var types = [...]struct {
	name string
	size int
}{
	U8:   {"u8", 1},
	I8:   {"i8", 1},
	U16:  {"u16", 2},
	I16:  {"i16", 2},
	I32:  {"i32", 4},
	I64:  {"i64", 8},
	F16:  {"f16", 2},
	BF16: {"bf16", 2},
	F32:  {"f32", 4},
	F64:  {"f64", 8},
	U32:  {"u32", 4},
	U64:  {"u64", 8},
	Bool: {"bool", 1},
}

// Valid reports whether d is one of the constants.
func (d DType) Valid() bool { return d >= U8 && d <= Bool }

// IsFloat reports whether d is a floating-point type.
func (d DType) IsFloat() bool { return d == F16 || d == BF16 || d == F32 || d == F64 }

// Size returns the bytes of one element, 0 for an invalid type.
func (d DType) Size() int {
	if !d.Valid() {
		return 0
	}
	return types[d].size
}

// String returns the short name: "u8", "bf16", "f32".
func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return types[d].name
}

// Parse returns the type of that short name, as [DType.String] writes it. It
// fails with [ErrUnknown].
func Parse(name string) (DType, error) {
	var names []string
	for d := U8; d <= Bool; d++ {
		if types[d].name == name {
			return d, nil
		}
		names = append(names, types[d].name)
	}
	return 0, fmt.Errorf("%w %q: want one of %s", ErrUnknown, name, strings.Join(names, ", "))
}
