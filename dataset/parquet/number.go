package parquet

import (
	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/pinion-gpu/pinion/dtype"
)

// number is a type of numbers that a column holds.
type number struct {
	float    bool
	unsigned bool
	bits     int // of storage
}

// numberOf returns the type of a column's numbers; false if it has none: text,
// but also decimals, dates and times, whose bits mean something else.
func numberOf(c *schema.Column) (number, bool) {
	switch logical := c.LogicalType(); c.PhysicalType() {
	case pq.Types.Boolean:
		return number{unsigned: true, bits: 8}, true
	case pq.Types.Int32, pq.Types.Int64:
		if t, ok := logical.(interface {
			BitWidth() int8
			IsSigned() bool
		}); ok {
			return number{unsigned: !t.IsSigned(), bits: int(t.BitWidth())}, true
		}
		bits := 32
		if c.PhysicalType() == pq.Types.Int64 {
			bits = 64
		}
		return number{bits: bits}, logical == nil || logical.IsNone()
	case pq.Types.Float:
		return number{float: true, bits: 32}, true
	case pq.Types.Double:
		return number{float: true, bits: 64}, true
	case pq.Types.FixedLenByteArray:
		_, ok := logical.(schema.Float16LogicalType)
		_, pointer := logical.(*schema.Float16LogicalType)
		return number{float: true, bits: 16}, (ok || pointer) && c.TypeLength() == 2
	}
	return number{}, false
}

// common returns the smallest element type that keeps the values of all those
// types, or the widest of its kind where none does.
func common(types []number) dtype.DType {
	allBytes := true // unsigned ones
	whole, signed, float := 0, 0, 0
	for _, t := range types {
		allBytes = allBytes && t.unsigned && t.bits == 8
		switch {
		case t.float:
			float = max(float, t.bits)
		case t.unsigned:
			whole, signed = max(whole, t.bits), max(signed, t.bits+1)
		default:
			whole, signed = max(whole, t.bits-1), max(signed, t.bits)
		}
	}
	switch {
	case float == 0 && allBytes:
		return dtype.U8
	case float == 0 && signed <= 8:
		return dtype.I8
	case float == 0 && signed <= 16:
		return dtype.I16
	case float == 0 && signed <= 32:
		return dtype.I32
	case float == 0:
		return dtype.I64
	case float <= 16 && whole <= 11: // bits of a whole number that it keeps
		return dtype.F16
	case float <= 32 && whole <= 24:
		return dtype.F32
	}
	return dtype.F64
}
