package chunks

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"

	"github.com/pinion-gpu/pinion/dataset"
)

// BatchSize is how many levels a batch has at most: few enough for values to
// stay in the processor's cache.
const BatchSize = 4096

// Batch is some of the values of a column, with the levels that say where there
// are values. It is good until the next one is read.
type Batch struct {
	Defs, Reps []uint8 // levels, also where they are all 0

	// The values that are there, all in one of these. Whole numbers of 64 bits
	// without sign are in Ints as they are.
	Ints   []int64
	Floats []float64
	Blobs  [][]byte
}

// Reader reads a column of a row group.
type Reader struct {
	file     *bufio.Reader
	leaf     *Node
	chunk    Chunk
	left     int64 // levels of the chunk that are not read
	room     int64 // bytes that pages may take
	held     int64 // of them, by the dictionary
	unsigned bool

	dictionary *Batch

	// The page: its levels, and the values that are not read. The next page takes
	// its memory.
	defs, reps   []uint8
	at           int
	values       values
	stored, data []byte
}

// Supported reports whether the values of a leaf can be read.
func (n *Node) Supported() bool {
	switch n.Type {
	case Boolean, Int32, Int64, Float, Double, ByteArray:
		return true
	case FixedLenByteArray:
		return n.Meaning == Half && n.Length == 2
	}
	return false
}

// NewReader reads a chunk of a file of that size. Its pages may take room bytes of
// memory; more is [dataset.ErrTooLarge]. Other errors are [dataset.ErrFormat] and
// [dataset.ErrDamaged], and those of file.
func NewReader(file io.ReaderAt, size int64, chunk Chunk, leaf *Node, room int64) (*Reader, error) {
	if err := chunk.Check(leaf, size); err != nil {
		return nil, err
	}
	// Some writers have counted too few bytes, so that the number of values says
	// where the chunk ends.
	section := io.NewSectionReader(file, chunk.Start(), size-chunk.Start())
	buffer := int(min(max(chunk.Bytes, 4<<10), 1<<20))
	return &Reader{
		file: bufio.NewReaderSize(section, buffer), leaf: leaf, chunk: chunk, left: chunk.Values, room: room,
		unsigned: leaf.Meaning == Whole && leaf.Unsigned,
	}, nil
}

// Check checks that a chunk of a file of that size can be read: that its codec is
// known, and that it lies in the file.
func (c Chunk) Check(leaf *Node, size int64) error {
	if c.Encrypted {
		return fmt.Errorf("%w: encrypted", dataset.ErrFormat)
	}
	if err := c.Codec.Check(); err != nil {
		return err
	}
	if c.Type != leaf.Type {
		return fmt.Errorf("%w: stored as type %d, the schema says %d", dataset.ErrDamaged, c.Type, leaf.Type)
	}
	if !leaf.Supported() {
		return fmt.Errorf("%w: physical type %d", dataset.ErrFormat, c.Type)
	}
	if start := c.Start(); start < 0 || c.Bytes < 0 || start > size || c.Bytes > size-start {
		return fmt.Errorf("%w: %d bytes from %d on, of a file of %d", dataset.ErrDamaged, c.Bytes, start, size)
	}
	return nil
}

// Next reads a batch of at least one level; false at the end.
func (r *Reader) Next(b *Batch) (bool, error) {
	for r.at == len(r.defs) {
		if r.left <= 0 {
			return false, nil
		}
		if err := r.page(); err != nil {
			return false, err
		}
	}
	n := min(len(r.defs)-r.at, BatchSize)
	b.Defs, b.Reps = r.defs[r.at:][:n], r.reps[r.at:][:n]
	b.Ints, b.Floats, b.Blobs = b.Ints[:0], b.Floats[:0], b.Blobs[:0]
	r.at += n
	return true, r.values.read(r.there(b.Defs), b)
}

// there counts the levels that have a value.
func (r *Reader) there(defs []uint8) (n int) {
	if r.leaf.MaxDef == 0 {
		return len(defs)
	}
	for _, d := range defs {
		if d == r.leaf.MaxDef {
			n++
		}
	}
	return n
}

// page reads the next page, and makes it the current one if it has data.
func (r *Reader) page() error {
	h, err := readHeader(r.file)
	if err != nil {
		return err
	}
	if int64(h.compressed) > r.chunk.Bytes {
		return fmt.Errorf("%w: a page of %d bytes in a column of %d", dataset.ErrDamaged, h.compressed, r.chunk.Bytes)
	}
	switch h.kind {
	case dataPage, dataPageV2, dictionaryPage:
	default: // an index, or what is not known yet
		_, err := r.file.Discard(int(h.compressed))
		return err
	}
	used := r.held + int64(h.compressed) + r.uncompressed(h) + r.decoded(h)
	if used > r.room {
		return tooLarge(used, r.room)
	}
	r.stored = room(r.stored, int(h.compressed))
	stored := r.stored
	if _, err := io.ReadFull(r.file, stored); err != nil {
		return fmt.Errorf("%w: cut short in a page: %w", dataset.ErrDamaged, err)
	}
	switch h.kind {
	case dictionaryPage:
		return r.readDictionary(h, stored)
	case dataPage:
		err = r.readData(h, stored)
	default:
		err = r.readDataV2(h, stored)
	}
	if r.left -= int64(h.values); err == nil && r.left < 0 {
		err = fmt.Errorf("%w: more than the %d values that the footer says", dataset.ErrDamaged, r.chunk.Values)
	}
	return err
}

func tooLarge(asked, room int64) error {
	return fmt.Errorf("%w: pages need %d bytes, CacheBytes allow %d", dataset.ErrTooLarge, asked, room)
}

// uncompressed is how many bytes a page takes beside the stored ones. What it
// claims to unpack is not there yet.
func (r *Reader) uncompressed(h header) int64 {
	if r.chunk.Codec == Uncompressed {
		return 0
	}
	return int64(h.uncompressed)
}

// decoded is how many bytes the values of a page take, at most, before they are
// in batches.
func (r *Reader) decoded(h header) int64 {
	each := int64(2) // levels
	switch h.encoding {
	case deltaBinaryPacked, deltaLengthBytes, byteStreamSplit:
		each += 8
	case deltaBytes:
		each += 16
	case plainDictionary, dictionaryIndexes:
		each += 4
	case runs:
		each++
	}
	switch {
	case h.kind == dictionaryPage && r.leaf.Type == ByteArray:
		each = blobOfDictionary
	case h.kind == dictionaryPage:
		each = numbersOfDictionary
	case r.leaf.Type == Boolean:
		each++
	}
	return each * int64(h.values)
}

// unpack decompresses what a page has.
func (r *Reader) unpack(stored []byte, n int, codec Codec) ([]byte, error) {
	if codec == Uncompressed {
		if len(stored) != n {
			return nil, fmt.Errorf("%w: a page of %d bytes, not compressed, in %d", dataset.ErrDamaged, n, len(stored))
		}
		return stored, nil
	}
	r.data = room(r.data, n)
	return r.data, codec.decompress(r.data, stored)
}

// room returns n bytes, of those of b if they suffice.
func room(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

func (r *Reader) readDictionary(h header, stored []byte) error {
	if r.dictionary != nil || r.defs != nil {
		return fmt.Errorf("%w: a dictionary that is not the first page", dataset.ErrDamaged)
	}
	if h.encoding != plain && h.encoding != plainDictionary {
		return fmt.Errorf("%w: a dictionary in encoding %d", dataset.ErrFormat, h.encoding)
	}
	data, err := r.unpack(stored, int(h.uncompressed), r.chunk.Codec)
	if err != nil {
		return err
	}
	v, err := r.decoder(plain, int(h.values), data)
	if err != nil {
		return err
	}
	r.dictionary = &Batch{}
	r.held = int64(len(data)) + r.decoded(h)
	r.stored, r.data = nil, nil // the dictionary keeps its page
	switch r.leaf.Type {        // of the right size at once
	case ByteArray:
		r.dictionary.Blobs = make([][]byte, 0, h.values)
	case Float, Double, FixedLenByteArray:
		r.dictionary.Floats = make([]float64, 0, h.values)
	default:
		r.dictionary.Ints = make([]int64, 0, h.values)
	}
	return v.read(int(h.values), r.dictionary)
}

// readData makes a data page of version 1 the current one: all of it is
// compressed, and each kind of levels is behind its length.
func (r *Reader) readData(h header, stored []byte) error {
	data, err := r.unpack(stored, int(h.uncompressed), r.chunk.Codec)
	if err != nil {
		return err
	}
	levels := func(most uint8, e encoding) ([]byte, error) {
		switch {
		case most == 0:
			return nil, nil
		case e != runs:
			return nil, fmt.Errorf("%w: levels in encoding %d", dataset.ErrFormat, e)
		case len(data) < 4 || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-4):
			return nil, errShort
		}
		n := binary.LittleEndian.Uint32(data)
		b := data[4:][:n]
		data = data[4:][n:]
		return b, nil
	}
	reps, err := levels(r.leaf.MaxRep, h.repEncoding)
	if err != nil {
		return err
	}
	defs, err := levels(r.leaf.MaxDef, h.defEncoding)
	if err != nil {
		return err
	}
	return r.begin(h, reps, defs, data)
}

// readDataV2 makes a data page of version 2 the current one: its levels are not
// compressed.
func (r *Reader) readDataV2(h header, stored []byte) error {
	levels := int64(h.repBytes) + int64(h.defBytes)
	if levels > int64(len(stored)) || levels > int64(h.uncompressed) {
		return errShort
	}
	codec := r.chunk.Codec
	if h.stored {
		codec = Uncompressed
	}
	data, err := r.unpack(stored[levels:], int(int64(h.uncompressed)-levels), codec)
	if err != nil {
		return err
	}
	return r.begin(h, stored[:h.repBytes], stored[h.repBytes:levels], data)
}

// begin makes a page the current one.
func (r *Reader) begin(h header, reps, defs, data []byte) (err error) {
	n := int(h.values)
	r.at = 0
	if r.reps, err = levels(r.reps, n, reps, r.leaf.MaxRep); err != nil {
		return err
	}
	if r.defs, err = levels(r.defs, n, defs, r.leaf.MaxDef); err != nil {
		return err
	}
	r.values, err = r.decoder(h.encoding, r.there(r.defs), data)
	return err
}

// levels reads n levels of at most most, in the memory of those of the page
// before.
func levels(old []uint8, n int, src []byte, most uint8) ([]uint8, error) {
	list := room(old, n)
	if err := hybrid(list, src, uint(bits.Len8(most))); err != nil {
		return nil, err
	}
	if most&(most+1) == 0 {
		return list, nil // as much as its bits can say
	}
	for _, l := range list {
		if l > most {
			return nil, fmt.Errorf("%w: a level of %d, at most %d are there", dataset.ErrDamaged, l, most)
		}
	}
	return list, nil
}

// decoder reads n values of the column's type.
func (r *Reader) decoder(e encoding, n int, data []byte) (values, error) {
	of := r.leaf.Type
	width := map[Type]int{Int32: 4, Int64: 8, Float: 4, Double: 8, FixedLenByteArray: int(r.leaf.Length)}[of]
	switch {
	case e == plain && of == Boolean:
		if (n+7)/8 > len(data) {
			return nil, errShort
		}
		v := make(bools, n)
		for i := range v {
			v[i] = byte(bitsAt(data, 1, i))
		}
		return &v, nil
	case e == runs && of == Boolean:
		if len(data) < 4 {
			return nil, errShort
		}
		v := make(bools, n)
		return &v, hybrid(v, data[4:], 1)
	case e == plain && of == ByteArray:
		v := blobs(data)
		return &v, nil
	case e == plain:
		return &fixed{data, width, of, r.unsigned}, nil
	case e == byteStreamSplit && width > 0:
		if n*width > len(data) {
			return nil, errShort
		}
		return &fixed{unsplit(data, width), width, of, r.unsigned}, nil
	case e == plainDictionary || e == dictionaryIndexes:
		return r.lookups(n, data)
	case e == deltaBinaryPacked && (of == Int32 || of == Int64):
		list, _, err := deltas(n, data)
		if of == Int32 {
			for i, v := range list {
				if list[i] = int64(int32(v)); r.unsigned {
					list[i] = int64(uint32(v))
				}
			}
		}
		v := whole(list)
		return &v, err
	case e == deltaLengthBytes && of == ByteArray:
		lengths, rest, err := deltas(n, data)
		return &lengthBlobs{lengths, rest}, err
	case e == deltaBytes && of == ByteArray:
		prefixes, rest, err := deltas(n, data)
		if err != nil {
			return nil, err
		}
		lengths, rest, err := deltas(n, rest)
		return &prefixBlobs{prefixes: prefixes, suffixes: lengthBlobs{lengths, rest}, room: r.room}, err
	}
	return nil, fmt.Errorf("%w: values in encoding %d", dataset.ErrFormat, e)
}

// lookups reads n values by their indexes in the dictionary.
func (r *Reader) lookups(n int, data []byte) (values, error) {
	switch {
	case n == 0:
		return &indexes{dictionary: &Batch{}}, nil
	case r.dictionary == nil:
		return nil, fmt.Errorf("%w: there is no dictionary", dataset.ErrDamaged)
	case len(data) == 0 || data[0] > 32:
		return nil, errShort
	}
	v := &indexes{make([]uint32, n), r.dictionary}
	return v, hybrid(v.at, data[1:], uint(data[0]))
}
