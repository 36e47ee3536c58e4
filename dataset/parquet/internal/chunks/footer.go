package chunks

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/pinion-gpu/pinion/dataset"
)

// magic begins and ends every file; before the last one stand four bytes with
// the length of the footer.
const magic = "PAR1"

// Footer is what a file says about its content.
type Footer struct {
	Leaves []*Node // of the schema: what is stored as a column
	Groups []Group
	Meta   map[string]string
}

// Group is a row group.
type Group struct {
	Rows   int64
	Chunks []Chunk // one for each leaf
}

// Chunk says where a column of a row group is, and how it is stored.
type Chunk struct {
	Type              Type
	Codec             Codec
	Encrypted         bool
	Values            int64 // and nulls
	Data, Dictionary  int64 // offsets in the file; Dictionary: 0 is none
	Bytes             int64 // in the file
	UncompressedBytes int64
}

// Start is where the chunk begins in the file.
func (c Chunk) Start() int64 {
	if c.Dictionary > 0 {
		return min(c.Data, c.Dictionary)
	}
	return c.Data
}

// ReadFooter reads the footer of a file of that size. It fails with
// [dataset.ErrFormat] if it is no Parquet file, and with [dataset.ErrDamaged].
func ReadFooter(f io.ReaderAt, size int64) (*Footer, error) {
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
	return parseFooter(footer)
}

// Numbers of fields are those of
// https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift

// parseFooter reads a FileMetaData.
func parseFooter(footer []byte) (*Footer, error) {
	f := &Footer{Meta: map[string]string{}}
	var elements []element
	c := &compact{footer}
	err := c.fields(0, func(id int, kind byte) error {
		switch id {
		case 2:
			elements = nil
			return c.elements(kind, func(kind byte) error {
				e, err := c.schemaElement(kind)
				elements = append(elements, e)
				return err
			})
		case 4:
			f.Groups = nil
			return c.elements(kind, func(kind byte) error {
				g, err := c.rowGroup(kind)
				f.Groups = append(f.Groups, g)
				return err
			})
		case 5:
			return c.elements(kind, func(kind byte) error { return c.keyValue(kind, f.Meta) })
		}
		return c.skip(kind, 0)
	})
	if err != nil {
		return nil, err
	}
	if f.Leaves, err = leaves(elements); err != nil {
		return nil, err
	}
	for i, g := range f.Groups {
		if len(g.Chunks) != len(f.Leaves) {
			return nil, fmt.Errorf("%w: row group %d has %d columns of %d", dataset.ErrDamaged, i, len(g.Chunks), len(f.Leaves))
		}
	}
	return f, nil
}

func (c *compact) keyValue(kind byte, meta map[string]string) error {
	var key, value []byte
	err := c.structure(kind, 1, func(id int, kind byte) (err error) {
		switch id {
		case 1:
			key, err = c.binary(kind)
		case 2:
			value, err = c.binary(kind)
		default:
			err = c.skip(kind, 1)
		}
		return err
	})
	meta[string(key)] = string(value)
	return err
}

func (c *compact) rowGroup(kind byte) (g Group, err error) {
	return g, c.structure(kind, 1, func(id int, kind byte) error {
		switch id {
		case 1:
			g.Chunks = nil
			return c.elements(kind, func(kind byte) error {
				chunk, err := c.columnChunk(kind)
				g.Chunks = append(g.Chunks, chunk)
				return err
			})
		case 3:
			return into(c, kind, &g.Rows)
		}
		return c.skip(kind, 1)
	})
}

func (c *compact) columnChunk(kind byte) (chunk Chunk, err error) {
	known := false
	err = c.structure(kind, 2, func(id int, kind byte) error {
		switch id {
		case 3:
			known = true
			return c.columnMetaData(kind, &chunk)
		case 8, 9: // crypto_metadata, encrypted_column_metadata
			chunk.Encrypted = true
		}
		return c.skip(kind, 2)
	})
	if err == nil && !known && !chunk.Encrypted {
		err = errThrift
	}
	return chunk, err
}

func (c *compact) columnMetaData(kind byte, chunk *Chunk) error {
	return c.structure(kind, 3, func(id int, kind byte) error {
		switch id {
		case 1:
			return into(c, kind, &chunk.Type)
		case 4:
			return into(c, kind, &chunk.Codec)
		case 5:
			return into(c, kind, &chunk.Values)
		case 6:
			return into(c, kind, &chunk.UncompressedBytes)
		case 7:
			return into(c, kind, &chunk.Bytes)
		case 9:
			return into(c, kind, &chunk.Data)
		case 11:
			return into(c, kind, &chunk.Dictionary)
		}
		return c.skip(kind, 3)
	})
}
