package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// Files that are valid, though the library does not take them.

// TestUnknownLogicalType: a column of a type that is newer than the library is not
// read, and the others are.
func TestUnknownLogicalType(t *testing.T) {
	fields := schema.FieldList{required("a", f32), leaf("new", pq.Repetitions.Required, schema.JSONLogicalType{}, pq.Types.ByteArray, -1)}
	group := []values{{of: []float32{1, 2}}, {of: []pq.ByteArray{[]byte("x"), []byte("y")}}}
	path := write(t, temp(t, "a.parquet"), fields, [][]values{group})
	file, err := os.ReadFile(path)
	testkit.OK(t, err)
	end := len(file) - 8
	footer := file[end-int(binary.LittleEndian.Uint32(file[end:])):][:binary.LittleEndian.Uint32(file[end:])]
	begin := end - len(footer)
	for name, union := range map[string][]byte{
		"of a type 40": {12, 80, 0, 0},
		"of no type":   {0},
	} {
		json := []byte{12<<4 | 12, 0, 0}
		if bytes.Count(footer, json) != 1 {
			t.Fatal("the footer has no type to change")
		}
		changed := bytes.Replace(footer, json, union, 1)
		file := append(bytes.Clone(file[:begin]), changed...)
		file = append(binary.LittleEndian.AppendUint32(file, uint32(len(changed))), "PAR1"...)
		d, err := Open(t.Context(), testkit.WriteFile(t, file, temp(t, "new.parquet")), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if rows, _ := readRows(t, d); fmt.Sprint(rows) != "[[1] [2]]" {
			t.Errorf("%s: %v", name, rows)
		}
	}
}

// terse makes nothing of nothing, as some writers do.
type terse struct {
	compress.Codec
	compress.StreamingCodec
}

func (c terse) Encode(dst, src []byte) []byte {
	if len(src) == 0 {
		return dst[:0]
	}
	return c.Codec.Encode(dst, src)
}

func (c terse) EncodeLevel(dst, src []byte, level int) []byte {
	if len(src) == 0 {
		return dst[:0]
	}
	return c.Codec.EncodeLevel(dst, src, level)
}

// TestEmptyPage: a page of nulls alone may have no bytes of values.
func TestEmptyPage(t *testing.T) {
	fill := 7.0
	for name, c := range map[string]compress.Compression{"snappy": compress.Codecs.Snappy, "gzip": compress.Codecs.Gzip, "zstd": compress.Codecs.Zstd} {
		codec, err := compress.GetCodec(c)
		testkit.OK(t, err)
		compress.RegisterCodec(c, terse{codec, codec.(compress.StreamingCodec)})
		path := write(t, temp(t, "a.parquet"), schema.FieldList{optional("a", f32)}, [][]values{{{of: []float32{}, defs: []int16{0, 0, 0}}}},
			pq.WithDataPageVersion(pq.DataPageV2), pq.WithCompression(c), pq.WithDictionaryDefault(false))
		compress.RegisterCodec(c, codec)
		d, err := Open(t.Context(), path, Options{Fill: &fill})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if rows, _ := readRows(t, d); fmt.Sprint(rows) != "[[7] [7] [7]]" {
			t.Errorf("%s: %v", name, rows)
		}
	}
}
