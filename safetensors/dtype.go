package safetensors

import "github.com/pinion-gpu/pinion/dtype"

// DType is the type of an element, by its name in a header.
type DType string

// The types of the format. Those of fewer than eight bits are packed.
const (
	Bool       DType = "BOOL" // a byte, 0 or 1
	F4         DType = "F4"   // E2M1
	F6E2M3     DType = "F6_E2M3"
	F6E3M2     DType = "F6_E3M2"
	U8         DType = "U8"
	I8         DType = "I8"
	F8E5M2     DType = "F8_E5M2"
	F8E4M3     DType = "F8_E4M3"
	F8E8M0     DType = "F8_E8M0"
	F8E4M3FNUZ DType = "F8_E4M3FNUZ"
	F8E5M2FNUZ DType = "F8_E5M2FNUZ"
	I16        DType = "I16"
	U16        DType = "U16"
	F16        DType = "F16"
	BF16       DType = "BF16"
	I32        DType = "I32"
	U32        DType = "U32"
	F32        DType = "F32"
	C64        DType = "C64" // two F32
	F64        DType = "F64"
	I64        DType = "I64"
	U64        DType = "U64"
)

// typeInfo is what is known of a type.
type typeInfo struct {
	name    DType
	bits    int64
	element dtype.DType // of tensors; 0: none
}

// types are by name. Their names are those that headers hand out, so that a
// header does not keep its text.
var types = func() map[string]typeInfo {
	m := map[string]typeInfo{}
	for _, t := range []typeInfo{
		{Bool, 8, 0}, {F4, 4, 0}, {F6E2M3, 6, 0}, {F6E3M2, 6, 0},
		{U8, 8, dtype.U8}, {I8, 8, dtype.I8},
		{F8E5M2, 8, 0}, {F8E4M3, 8, 0}, {F8E8M0, 8, 0}, {F8E4M3FNUZ, 8, 0}, {F8E5M2FNUZ, 8, 0},
		{I16, 16, dtype.I16}, {U16, 16, dtype.U16}, {F16, 16, dtype.F16}, {BF16, 16, dtype.BF16},
		{I32, 32, dtype.I32}, {U32, 32, 0}, {F32, 32, dtype.F32},
		{C64, 64, 0}, {F64, 64, dtype.F64}, {I64, 64, dtype.I64}, {U64, 64, 0},
	} {
		m[string(t.name)] = t
	}
	return m
}()

// Bits returns the bits of one element, 0 for an unknown type.
func (d DType) Bits() int64 { return types[string(d)].bits }

// Element returns the element type of package dtype, and false where it has
// none: BOOL, U32, U64, C64 and floats of eight bits or fewer.
func (d DType) Element() (dtype.DType, bool) {
	e := types[string(d)].element
	return e, e != 0
}

// Of returns the type of that name in the format, "" for an invalid type.
func Of(d dtype.DType) DType {
	switch d { // which tensors of a file are not read as
	case dtype.Bool:
		return Bool
	case dtype.U32:
		return U32
	case dtype.U64:
		return U64
	}
	for _, t := range types {
		if t.element == d && d != 0 {
			return t.name
		}
	}
	return ""
}
