package chunks

import (
	"encoding/binary"
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
)

// compact reads values of Thrift's compact protocol, in which footers and the
// headers of pages are written.
//
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
type compact struct{ left []byte }

var errThrift = fmt.Errorf("%w: the footer or the header of a page is cut short or corrupt", dataset.ErrDamaged)

// Types of values.
const (
	isTrue, isFalse, isByte       = 1, 2, 3
	isI16, isI32, isI64, isDouble = 4, 5, 6, 7
	isBinary, isList, isSet       = 8, 9, 10
	isStruct                      = 12
)

// maxDepth is far beyond the five levels that footers have.
const maxDepth = 32

func (c *compact) take(n uint64) ([]byte, error) {
	if n > uint64(len(c.left)) {
		return nil, errThrift
	}
	b := c.left[:n]
	c.left = c.left[n:]
	return b, nil
}

func (c *compact) varint() (uint64, error) {
	v, n := binary.Uvarint(c.left)
	if n <= 0 {
		return 0, errThrift
	}
	c.left = c.left[n:]
	return v, nil
}

func (c *compact) byte() (byte, error) {
	b, err := c.take(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// fields calls field for each field of a struct, which reads or skips its value.
func (c *compact) fields(depth int, field func(id int, kind byte) error) error {
	if depth > maxDepth {
		return errThrift
	}
	for id := 0; ; {
		head, err := c.byte()
		if err != nil || head == 0 {
			return err
		}
		if delta := int(head >> 4); delta > 0 {
			id += delta
		} else { // the number of the field follows
			n, err := c.varint()
			if err != nil {
				return err
			}
			id = int(int32(unzigzag(n)))
		}
		if err := field(id, head&15); err != nil {
			return err
		}
	}
}

// elements calls element for each element of a list.
func (c *compact) elements(kind byte, element func(kind byte) error) error {
	if kind != isList && kind != isSet {
		return errThrift
	}
	head, err := c.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = c.varint(); err != nil {
			return err
		}
	}
	if n > uint64(len(c.left)) {
		return errThrift
	}
	for range n {
		if err := element(head & 15); err != nil {
			return err
		}
	}
	return nil
}

// skip skips the value of a field.
func (c *compact) skip(kind byte, depth int) error {
	if kind == isTrue || kind == isFalse {
		return nil // said by the type
	}
	return c.skipElement(kind, depth)
}

func (c *compact) skipElement(kind byte, depth int) (err error) {
	switch kind {
	case isTrue, isFalse, isByte:
		_, err = c.take(1)
	case isI16, isI32, isI64:
		_, err = c.varint()
	case isDouble:
		_, err = c.take(8)
	case isBinary:
		_, err = c.binary(kind)
	case isList, isSet:
		if depth > maxDepth {
			return errThrift
		}
		err = c.elements(kind, func(kind byte) error { return c.skipElement(kind, depth+1) })
	case isStruct:
		err = c.fields(depth+1, func(_ int, kind byte) error { return c.skip(kind, depth+1) })
	default: // maps and uuids are not part of the format
		err = errThrift
	}
	return err
}

// structure reads a struct, field by field.
func (c *compact) structure(kind byte, depth int, field func(id int, kind byte) error) error {
	if kind != isStruct {
		return errThrift
	}
	return c.fields(depth, field)
}

func (c *compact) binary(kind byte) ([]byte, error) {
	if kind != isBinary {
		return nil, errThrift
	}
	n, err := c.varint()
	if err != nil {
		return nil, err
	}
	return c.take(n)
}

// number reads a whole number.
func (c *compact) number(kind byte) (int64, error) {
	switch kind {
	case isByte:
		b, err := c.byte()
		return int64(int8(b)), err
	case isI16, isI32, isI64:
		n, err := c.varint()
		return unzigzag(n), err
	}
	return 0, errThrift
}

// into reads a whole number into *dst.
func into[T ~int32 | ~int64](c *compact, kind byte, dst *T) error {
	n, err := c.number(kind)
	if *dst = T(n); err == nil && int64(*dst) != n {
		err = errThrift
	}
	return err
}

func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }
