package chunks

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/pinion-gpu/pinion/dataset"
)

// Kinds of pages, with their numbers in files.
const (
	dataPage       = 0
	dictionaryPage = 2
	dataPageV2     = 3
)

// header is a PageHeader, with what the headers for each kind have.
type header struct {
	kind                     int32
	uncompressed, compressed int32 // bytes
	values                   int32 // and nulls
	encoding                 encoding
	defEncoding, repEncoding encoding // of a data page of version 1
	defBytes, repBytes       int32    // of a data page of version 2
	stored                   bool     // uncompressed, though the column has a codec
}

// header reads the header of a page.
func (c *compact) header() (h header, err error) {
	err = c.fields(0, func(id int, kind byte) error {
		switch id {
		case 1:
			return into(c, kind, &h.kind)
		case 2:
			return into(c, kind, &h.uncompressed)
		case 3:
			return into(c, kind, &h.compressed)
		case 5, 7, 8:
			return c.pageHeader(id, kind, &h)
		}
		return c.skip(kind, 0)
	})
	if err == nil && (h.uncompressed < 0 || h.compressed < 0 || h.values < 0 || h.defBytes < 0 || h.repBytes < 0) {
		err = fmt.Errorf("%w: a page of a negative size", dataset.ErrDamaged)
	}
	return h, err
}

// pageHeader reads a DataPageHeader, a DictionaryPageHeader or a
// DataPageHeaderV2, which are fields 5, 7 and 8.
func (c *compact) pageHeader(of int, kind byte, h *header) error {
	return c.structure(kind, 1, func(id int, kind byte) error {
		v2 := of == 8
		switch {
		case id == 1:
			return into(c, kind, &h.values)
		case id == 2 && !v2, id == 4 && v2:
			return into(c, kind, &h.encoding)
		case id == 3 && of == 5:
			return into(c, kind, &h.defEncoding)
		case id == 4 && of == 5:
			return into(c, kind, &h.repEncoding)
		case id == 5 && v2:
			return into(c, kind, &h.defBytes)
		case id == 6 && v2:
			return into(c, kind, &h.repBytes)
		case id == 7 && v2:
			h.stored = kind == isFalse
		}
		return c.skip(kind, 1)
	})
}

// readHeader reads the header of the page that follows in r. It may have
// statistics, which are as long as values are.
func readHeader(r *bufio.Reader) (header, error) {
	for n := 256; ; n *= 8 {
		n = min(n, r.Size())
		b, failed := r.Peek(n)
		c := compact{b}
		h, err := c.header()
		switch {
		case err == nil:
			_, err := r.Discard(len(b) - len(c.left))
			return h, err
		case failed != nil && failed != io.EOF:
			return h, failed
		case failed == io.EOF || n == r.Size() || !errors.Is(err, errThrift):
			return h, err
		}
	}
}
