package parquet

import (
	"github.com/pinion-gpu/pinion/dataset/parquet/internal/chunks"
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
func numberOf(leaf *chunks.Node) (number, bool) {
	switch leaf.Type {
	case chunks.Boolean:
		return number{unsigned: true, bits: 8}, true
	case chunks.Int32, chunks.Int64:
		if leaf.Meaning == chunks.Whole {
			return number{unsigned: leaf.Unsigned, bits: leaf.Bits}, true
		}
		return number{bits: 32 << (leaf.Type - chunks.Int32)}, leaf.Meaning == chunks.Plain
	case chunks.Float:
		return number{float: true, bits: 32}, true
	case chunks.Double:
		return number{float: true, bits: 64}, true
	case chunks.FixedLenByteArray:
		return number{float: true, bits: 16}, leaf.Supported()
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
