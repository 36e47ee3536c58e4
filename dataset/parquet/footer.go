package parquet

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet/metadata"

	"github.com/pinion-gpu/pinion/dataset"
)

// magic begins and ends every file; before the last one stand four bytes with
// the length of the footer.
const magic = "PAR1"

// readFooter reads what a file of that size says about its content.
func readFooter(f io.ReaderAt, size int64) (*metadata.FileMetaData, error) {
	var head [4]byte
	var tail [8]byte
	if size < int64(len(head)+len(tail)) {
		return nil, fmt.Errorf("%w: no Parquet but %d bytes", dataset.ErrFormat, size)
	}
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	if _, err := f.ReadAt(tail[:], size-int64(len(tail))); err != nil {
		return nil, err
	}
	end, n := string(tail[4:]), int64(binary.LittleEndian.Uint32(tail[:]))
	switch room := size - int64(len(head)+len(tail)); {
	case string(head[:]) == "PARE" || end == "PARE":
		return nil, fmt.Errorf("%w: an encrypted file", dataset.ErrFormat)
	case string(head[:]) != magic:
		return nil, fmt.Errorf("%w: no Parquet, which begins with %q", dataset.ErrFormat, magic)
	case end != magic:
		return nil, fmt.Errorf("%w: cut short: it does not end with %q", dataset.ErrDamaged, magic)
	case n > room:
		return nil, fmt.Errorf("%w: a footer of %d bytes in a file of %d", dataset.ErrDamaged, n, size)
	}
	footer := make([]byte, n)
	if _, err := f.ReadAt(footer, size-int64(len(tail))-n); err != nil {
		return nil, err
	}
	c := compact{footer}
	if err := c.skipStruct(0); err != nil {
		return nil, err
	}
	footer, err := knownTypes(footer)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewFileMetaData(footer, nil)
	if err != nil {
		return nil, damaged(err)
	}
	meta.SetSourceFileSize(size)
	return meta, nil
}

// compact walks over a value of Thrift's compact protocol, in which footers
// are written, to see that no list claims more elements than there are bytes:
// the library makes room for a list before it reads it.
//
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
type compact struct{ left []byte }

var errFooter = fmt.Errorf("%w: the footer is cut short or corrupt", dataset.ErrDamaged)

// maxDepth is far beyond the five levels that footers have.
const maxDepth = 32

func (c *compact) skip(n uint64) error {
	if n > uint64(len(c.left)) {
		return errFooter
	}
	c.left = c.left[n:]
	return nil
}

func (c *compact) varint() (uint64, error) {
	v, n := binary.Uvarint(c.left)
	if n <= 0 {
		return 0, errFooter
	}
	c.left = c.left[n:]
	return v, nil
}

func (c *compact) byte() (byte, error) {
	if len(c.left) == 0 {
		return 0, errFooter
	}
	b := c.left[0]
	c.left = c.left[1:]
	return b, nil
}

func (c *compact) skipStruct(depth int) error {
	return c.fields(depth, func(_ int, kind byte) error { return c.skipValue(kind, depth) })
}

// fields calls field for each field of a struct that has a value, which it reads
// or skips.
func (c *compact) fields(depth int, field func(id int, kind byte) error) error {
	if depth > maxDepth {
		return errFooter
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
			id = int(int32(n>>1) ^ -int32(n&1))
		}
		if kind := head & 15; kind > 2 { // 1 and 2 are true and false
			if err := field(id, kind); err != nil {
				return err
			}
		}
	}
}

func (c *compact) skipValue(kind byte, depth int) error {
	switch kind {
	case 1, 2, 3: // bool in a list, byte
		return c.skip(1)
	case 4, 5, 6: // i16, i32, i64
		_, err := c.varint()
		return err
	case 7: // double
		return c.skip(8)
	case 8: // binary
		n, err := c.varint()
		if err != nil {
			return err
		}
		return c.skip(n)
	case 9, 10: // list, set
		return c.skipList(depth)
	case 12:
		return c.skipStruct(depth + 1)
	}
	return errFooter // maps and uuids are not part of the format
}

func (c *compact) skipList(depth int) error {
	n, kind, err := c.list()
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return errFooter
	}
	for range n {
		if err := c.skipValue(kind, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// list reads the length of a list, and what is in it.
func (c *compact) list() (n uint64, kind byte, err error) {
	head, err := c.byte()
	if err != nil {
		return 0, 0, err
	}
	if n = uint64(head >> 4); n == 15 {
		if n, err = c.varint(); err != nil {
			return 0, 0, err
		}
	}
	if n > uint64(len(c.left)) {
		return 0, 0, errFooter
	}
	return n, head & 15, nil
}

// Numbers of fields of the format:
// https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
const (
	fieldSchema      = 2  // of FileMetaData: a list of SchemaElement
	fieldLogicalType = 10 // of SchemaElement: a union, LogicalType
	lastLogicalType  = 18 // of LogicalType, that the library knows
)

// nullType is a LogicalType UNKNOWN, which is field 11, an empty struct.
var nullType = []byte{11<<4 | 12, 0, 0}

// knownTypes returns a footer in which logical types that the library does not
// know, and would not open the file for, are UNKNOWN ones: those columns are not
// read, all others are. The format grows such types.
func knownTypes(footer []byte) ([]byte, error) {
	type span struct{ from, end int }
	var unknown []span
	c := compact{footer}
	err := c.fields(0, func(id int, kind byte) error {
		if id != fieldSchema || kind != 9 {
			return c.skipValue(kind, 0)
		}
		n, kind, err := c.list()
		if err != nil || kind != 12 {
			return errFooter
		}
		for range n {
			err := c.fields(1, func(id int, kind byte) error {
				if id != fieldLogicalType || kind != 12 {
					return c.skipValue(kind, 1)
				}
				from, known := len(footer)-len(c.left), false
				err := c.fields(2, func(id int, kind byte) error {
					known = known || id >= 1 && id <= lastLogicalType && id != 9
					return c.skipValue(kind, 2)
				})
				if !known {
					unknown = append(unknown, span{from, len(footer) - len(c.left)})
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || unknown == nil {
		return footer, err
	}
	var patched []byte
	at := 0
	for _, s := range unknown {
		patched = append(append(patched, footer[at:s.from]...), nullType...)
		at = s.end
	}
	return append(patched, footer[at:]...), nil
}
