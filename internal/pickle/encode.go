package pickle

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"unicode/utf8"
)

// Encode writes v as a pickle of protocol 4, which Python 3.4 and later load.
//
// It takes the types that [Decode] gives and, for convenience, int, []any (a
// list) and map[string]any (a dict in the order of its sorted keys). Strings
// and the containers behind pointers are written once and referred to where
// they appear again, so that a long list of records with the same keys stays
// small.
//
// Errors wrap [ErrType], or are those of w. A container that holds itself or
// is nested beyond [MaxDepth] is an error.
func Encode(w io.Writer, v any) error {
	e := encoder{w: bufio.NewWriterSize(w, 64<<10), strings: map[string]uint32{}, shared: map[any]uint32{}}
	e.op(opProto, 4)
	if err := e.value(v, 0); err != nil {
		return fmt.Errorf("pickle: %w", err)
	}
	e.op(opStop)
	return e.w.Flush()
}

// encoder writes without looking at errors of w: the buffer keeps the first
// one and gives it to Flush.
type encoder struct {
	w       *bufio.Writer
	scratch []byte
	strings map[string]uint32 // memo numbers
	shared  map[any]uint32    // of *List, *Tuple and *Dict
}

// longestShared is the longest string that is remembered for reuse. Longer
// ones are unlikely to repeat, and are not worth holding on to.
const longestShared = 4096

func (e *encoder) op(op byte, operand ...byte) {
	e.w.WriteByte(op)
	e.w.Write(operand)
}

// counted writes an opcode, a length of so many bytes, and the data.
func (e *encoder) counted(op byte, width int, data string) {
	e.number(op, width, uint64(len(data)))
	e.w.WriteString(data)
}

func (e *encoder) number(op byte, width int, u uint64) {
	e.scratch = binary.LittleEndian.AppendUint64(e.scratch[:0], u)
	e.op(op, e.scratch[:width]...)
}

func (e *encoder) value(v any, level int) error {
	switch v := v.(type) {
	case nil:
		e.op(opNone)
	case bool:
		if v {
			e.op(opNewTrue)
		} else {
			e.op(opNewFalse)
		}
	case int:
		e.int(int64(v))
	case int64:
		e.int(v)
	case uint64:
		e.big(new(big.Int).SetUint64(v))
	case *big.Int:
		e.big(v)
	case float64:
		e.scratch = binary.BigEndian.AppendUint64(e.scratch[:0], math.Float64bits(v))
		e.op(opBinFloat, e.scratch...)
	case string:
		return e.string(v)
	case []byte:
		e.bytes(v)
	default:
		return e.container(v, level)
	}
	return nil
}

func (e *encoder) int(n int64) {
	switch {
	case n >= 0 && n <= math.MaxUint8:
		e.number(opBinInt1, 1, uint64(n))
	case n >= 0 && n <= math.MaxUint16:
		e.number(opBinInt2, 2, uint64(n))
	case n >= math.MinInt32 && n <= math.MaxInt32:
		e.number(opBinInt, 4, uint64(n))
	default:
		e.op(opLong1, 8)
		e.scratch = binary.LittleEndian.AppendUint64(e.scratch[:0], uint64(n))
		e.w.Write(e.scratch)
	}
}

func (e *encoder) big(n *big.Int) {
	if n.IsInt64() {
		e.int(n.Int64())
		return
	}
	size := n.BitLen()/8 + 1 // with room for the sign
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	raw := n.FillBytes(make([]byte, size))
	slices.Reverse(raw)
	if size <= math.MaxUint8 {
		e.counted(opLong1, 1, string(raw))
	} else {
		e.counted(opLong4, 4, string(raw))
	}
}

func (e *encoder) string(s string) error {
	if at, ok := e.strings[s]; ok {
		e.get(at)
		return nil
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: the string %.40q is not UTF-8", ErrType, s)
	}
	switch {
	case len(s) <= math.MaxUint8:
		e.counted(opShortBinUnicode, 1, s)
	case len(s) <= math.MaxUint32:
		e.counted(opBinUnicode, 4, s)
	default:
		e.counted(opBinUnicode8, 8, s)
	}
	if len(s) <= longestShared {
		e.strings[s] = e.memoize()
	}
	return nil
}

func (e *encoder) bytes(b []byte) {
	switch {
	case len(b) <= math.MaxUint8:
		e.counted(opShortBinBytes, 1, string(b))
	case len(b) <= math.MaxUint32:
		e.counted(opBinBytes, 4, string(b))
	default:
		e.counted(opBinBytes8, 8, string(b))
	}
}

// memoize gives the value just written the next memo number.
func (e *encoder) memoize() uint32 {
	e.op(opMemoize)
	return uint32(len(e.strings) + len(e.shared))
}

func (e *encoder) get(at uint32) {
	if at <= math.MaxUint8 {
		e.number(opBinGet, 1, uint64(at))
	} else {
		e.number(opLongBinGet, 4, uint64(at))
	}
}

func (e *encoder) container(v any, level int) error {
	if level == MaxDepth {
		return fmt.Errorf("%w: containers are nested deeper than %d levels", ErrType, MaxDepth)
	}
	switch v := v.(type) {
	case []any:
		e.op(opEmptyList)
		return e.items(opAppends, slices.Values(v), len(v), level)
	case map[string]any:
		dict := Dict{Items: make([]Item, 0, len(v))}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			dict.Items = append(dict.Items, Item{key, v[key]})
		}
		e.op(opEmptyDict)
		return e.items(opSetItems, dict.flat, len(dict.Items), level)
	case *List, *Tuple, *Dict:
		if at, ok := e.shared[v]; ok {
			e.get(at)
			return nil
		}
		if err := e.contents(v, level); err != nil {
			return err
		}
		// Python numbers a list before its contents. Numbering it behind them
		// is as good, since nothing holds itself.
		e.shared[v] = e.memoize()
		return nil
	}
	return fmt.Errorf("%w: %T", ErrType, v)
}

func (e *encoder) contents(v any, level int) error {
	switch v := v.(type) {
	case *List:
		e.op(opEmptyList)
		return e.items(opAppends, slices.Values(v.Items), len(v.Items), level)
	case *Dict:
		e.op(opEmptyDict)
		return e.items(opSetItems, v.flat, len(v.Items), level)
	case *Tuple:
		if len(v.Items) == 0 {
			e.op(opEmptyTuple)
			return nil
		}
		return e.items(opTuple, slices.Values(v.Items), len(v.Items), level)
	}
	return nil
}
