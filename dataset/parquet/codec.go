package parquet

import "github.com/apache/arrow-go/v18/parquet/compress"

// Some writers leave out the values of a page that has none, such as one of nulls
// alone, where the codec would make a byte or more of nothing. The codecs of the
// library then call the page corrupt.
func init() {
	for _, c := range []compress.Compression{compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Zstd, compress.Codecs.Brotli} {
		codec, err := compress.GetCodec(c)
		if err != nil {
			continue
		}
		if streaming, ok := codec.(compress.StreamingCodec); ok {
			compress.RegisterCodec(c, lenient{codec, streaming})
		}
	}
}

// lenient is a codec for which nothing decompresses to nothing.
type lenient struct {
	compress.Codec
	compress.StreamingCodec
}

// DecodeWithError implements [compress.ErrorCodec].
func (c lenient) DecodeWithError(dst, src []byte) ([]byte, error) {
	if len(src) == 0 {
		return dst[:0], nil
	}
	return compress.Decode(c.Codec, dst, src)
}
