package pickle

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
)

// Decode reads the one pickle that data starts with; what follows it is
// ignored. The result shares no memory with data.
//
// A hostile pickle makes Decode fail, or gives plain data: memory stays below
// about 100 times the length of data, whatever lengths it claims. Errors wrap
// [ErrMalformed] or [ErrNotPlain].
func Decode(data []byte) (any, error) {
	d := decoder{data: data}
	v, err := d.run()
	if err != nil {
		return nil, fmt.Errorf("pickle: offset %d: %w", d.op, err)
	}
	if _, err := measure(v, 0); err != nil {
		return nil, fmt.Errorf("pickle: %w", err)
	}
	return v, nil
}

// decoder is the stack machine that a pickle is a program for.
type decoder struct {
	data  []byte
	pos   int // of the next byte
	op    int // of the opcode that is being done
	stack []any
	marks []int // lengths of the stack at open marks
	memo  []any // vacant in places that were skipped
}

// vacant stands in the memo for what was never put there.
type vacant struct{}

func (d *decoder) run() (any, error) {
	for {
		d.op = d.pos
		op, err := d.byte()
		if err != nil {
			return nil, err
		}
		if op == opStop {
			if len(d.stack) != 1 || len(d.marks) != 0 {
				return nil, fmt.Errorf("%w: STOP with %d values and %d marks on the stack", ErrMalformed, len(d.stack), len(d.marks))
			}
			return d.stack[0], nil
		}
		if d.op == 0 && op != opProto {
			return nil, fmt.Errorf("%w: it starts with 0x%02x, not with PROTO", ErrMalformed, op)
		}
		if err := d.step(op); err != nil {
			return nil, err
		}
	}
}

func (d *decoder) step(op byte) error {
	switch op {
	case opProto:
		version, err := d.byte()
		if err == nil && (version < 2 || version > 5) {
			err = fmt.Errorf("%w: protocol %d; 2 to 5 are read", ErrNotPlain, version)
		}
		return err
	case opFrame:
		// A frame is only a hint for buffering; its contents follow as usual.
		n, err := d.uint(8)
		if err == nil && n > uint64(len(d.data)-d.pos) {
			err = d.short(n)
		}
		return err

	case opNone:
		return d.push(nil)
	case opNewTrue:
		return d.push(true)
	case opNewFalse:
		return d.push(false)
	case opBinInt1:
		return d.int(1)
	case opBinInt2:
		return d.int(2)
	case opBinInt:
		return d.int(4)
	case opLong1:
		return d.long(1)
	case opLong4:
		return d.long(4)
	case opBinFloat:
		raw, err := d.take(8)
		if err != nil {
			return err
		}
		return d.push(math.Float64frombits(binary.BigEndian.Uint64(raw)))
	case opShortBinUnicode, opShortBinString:
		return d.string(1)
	case opBinUnicode, opBinString:
		return d.string(4)
	case opBinUnicode8:
		return d.string(8)
	case opShortBinBytes:
		return d.bytes(1)
	case opBinBytes:
		return d.bytes(4)
	case opBinBytes8, opByteArray8:
		return d.bytes(8)

	case opEmptyList:
		return d.push(&List{})
	case opEmptyTuple:
		return d.push(&Tuple{})
	case opEmptyDict:
		return d.push(&Dict{})
	case opAppend, opAppends, opSetItem, opSetItems:
		return d.extend(op)
	case opList, opTuple, opDict, opTuple1, opTuple2, opTuple3:
		return d.collect(op)

	case opMark:
		d.marks = append(d.marks, len(d.stack))
		return nil
	case opPop:
		if n := len(d.marks); n > 0 && d.marks[n-1] == len(d.stack) {
			d.marks = d.marks[:n-1]
			return nil
		}
		_, err := d.popN(1)
		return err
	case opPopMark:
		_, err := d.popMark()
		return err
	case opDup:
		v, err := d.top()
		if err != nil {
			return err
		}
		return d.push(v)

	case opBinPut, opLongBinPut, opMemoize:
		return d.put(op)
	case opBinGet:
		return d.get(1)
	case opLongBinGet:
		return d.get(4)
	}
	return unknownOpcode(op)
}

// int reads an integer of fixed width, of which only the widest is signed.
func (d *decoder) int(width int) error {
	u, err := d.uint(width)
	if err != nil {
		return err
	}
	if width == 4 {
		return d.push(int64(int32(u)))
	}
	return d.push(int64(u))
}

// long reads an integer in two's complement of any length, low byte first.
func (d *decoder) long(width int) error {
	raw, err := d.counted(width)
	if err != nil {
		return err
	}
	negative := len(raw) > 0 && raw[len(raw)-1]&0x80 != 0
	if len(raw) <= 8 {
		var wide [8]byte
		if negative {
			binary.LittleEndian.PutUint64(wide[:], math.MaxUint64)
		}
		copy(wide[:], raw)
		return d.push(int64(binary.LittleEndian.Uint64(wide[:])))
	}
	raw = slices.Clone(raw)
	slices.Reverse(raw)
	n := new(big.Int).SetBytes(raw)
	if negative {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	switch {
	case n.IsInt64():
		return d.push(n.Int64())
	case n.IsUint64():
		return d.push(n.Uint64())
	}
	return d.push(n)
}

// string keeps the bytes as they are: Python writes lone surrogates, which
// stand for the undecodable bytes of a file name, as if they were characters.
func (d *decoder) string(width int) error {
	raw, err := d.counted(width)
	if err != nil {
		return err
	}
	return d.push(string(raw))
}

func (d *decoder) bytes(width int) error {
	raw, err := d.counted(width)
	if err != nil {
		return err
	}
	return d.push(slices.Clone(raw))
}

// extend adds values to the list or dict below them.
func (d *decoder) extend(op byte) error {
	var values []any
	var err error
	switch op {
	case opAppend:
		values, err = d.popN(1)
	case opSetItem:
		values, err = d.popN(2)
	default:
		values, err = d.popMark()
	}
	if err != nil {
		return err
	}
	target, err := d.top()
	if err != nil {
		return err
	}
	switch target := target.(type) {
	case *List:
		if op == opAppend || op == opAppends {
			target.Items = append(target.Items, values...)
			return nil
		}
	case *Dict:
		if op == opSetItem || op == opSetItems {
			return target.add(values)
		}
	}
	return fmt.Errorf("%w: opcode %q on a %T", ErrMalformed, op, target)
}

// collect makes a container of the values above a mark, or of the top ones.
func (d *decoder) collect(op byte) error {
	var values []any
	var err error
	switch op {
	case opTuple1, opTuple2, opTuple3:
		values, err = d.popN(int(op-opTuple1) + 1)
	default:
		values, err = d.popMark()
	}
	if err != nil {
		return err
	}
	switch op {
	case opList:
		return d.push(&List{Items: slices.Clone(values)})
	case opDict:
		dict := &Dict{}
		if err := dict.add(values); err != nil {
			return err
		}
		return d.push(dict)
	}
	return d.push(&Tuple{Items: slices.Clone(values)})
}

// add appends keys and values in turn.
func (d *Dict) add(pairs []any) error {
	if len(pairs)%2 != 0 {
		return fmt.Errorf("%w: a dict key without a value", ErrMalformed)
	}
	d.Items = slices.Grow(d.Items, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		switch pairs[i].(type) {
		case *List, *Dict:
			return fmt.Errorf("%w: a %T as dict key", ErrMalformed, pairs[i])
		}
		d.Items = append(d.Items, Item{pairs[i], pairs[i+1]})
	}
	return nil
}

func (d *decoder) put(op byte) error {
	v, err := d.top()
	if err != nil {
		return err
	}
	at := uint64(len(d.memo))
	switch op {
	case opBinPut:
		at, err = d.uint(1)
	case opLongBinPut:
		at, err = d.uint(4)
	}
	if err != nil {
		return err
	}
	// Writers number in order, so that no honest number exceeds the length.
	if at >= uint64(len(d.data)) {
		return fmt.Errorf("%w: memo number %d in %d bytes", ErrMalformed, at, len(d.data))
	}
	for at >= uint64(len(d.memo)) {
		d.memo = append(d.memo, vacant{})
	}
	d.memo[at] = v
	return nil
}

func (d *decoder) get(width int) error {
	at, err := d.uint(width)
	if err != nil {
		return err
	}
	if at < uint64(len(d.memo)) && d.memo[at] != (vacant{}) {
		return d.push(d.memo[at])
	}
	return fmt.Errorf("%w: memo number %d is empty", ErrMalformed, at)
}
