package chunks

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/pinion-gpu/pinion/dataset"
)

// Codec is how pages are compressed.
type Codec int32

// The codecs, with their numbers in files. Not read: LZO, and the LZ4 that is
// not raw.
const (
	Uncompressed Codec = iota
	Snappy
	Gzip
	LZO
	Brotli
	LZ4
	Zstd
	LZ4Raw
)

var codecNames = [...]string{"UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW"}

// Check fails with [dataset.ErrFormat] for a codec that is not read.
func (c Codec) Check() error {
	switch {
	case c < 0 || int(c) >= len(codecNames):
		return fmt.Errorf("%w: compression %d", dataset.ErrFormat, c)
	case c == LZO || c == LZ4:
		return fmt.Errorf("%w: compression %s", dataset.ErrFormat, codecNames[c])
	}
	return nil
}

// zstds decompresses into the room it is given. Many goroutines may use it.
var zstds = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderConcurrency(0))
})

// decompress fills dst with what src holds: as many bytes and no more. Nothing is
// nothing in each codec: some writers leave out what compresses nothing.
func (c Codec) decompress(dst, src []byte) (err error) {
	n := len(dst)
	switch {
	case len(src) == 0:
		n = 0
	case c == Snappy:
		if n, err = snappy.DecodedLen(src); err == nil && n == len(dst) {
			_, err = snappy.Decode(dst, src)
		}
	case c == Gzip:
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(src)); err == nil {
			n, err = fill(dst, r)
		}
	case c == Brotli:
		n, err = fill(dst, brotli.NewReader(bytes.NewReader(src)))
	case c == Zstd:
		var d *zstd.Decoder
		if d, err = zstds(); err == nil {
			var got []byte
			got, err = d.DecodeAll(src, dst[:0:len(dst)])
			n = len(got)
		}
	case c == LZ4Raw:
		n, err = lz4.UncompressBlock(src, dst)
	default:
		return c.Check()
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: a page of %d bytes, %s: %w", dataset.ErrDamaged, len(dst), codecNames[c], err)
	case n != len(dst):
		return fmt.Errorf("%w: a page of %d bytes, %s: it has %d", dataset.ErrDamaged, len(dst), codecNames[c], n)
	}
	return nil
}

// fill reads as much as there is room for, and fails if there is more.
func fill(dst []byte, r io.Reader) (int, error) {
	n, err := io.ReadFull(r, dst)
	if err != nil {
		return n, err
	}
	var more [1]byte
	extra, err := io.ReadFull(r, more[:])
	if err == io.EOF {
		err = nil
	}
	return n + extra, err
}
