package parquet

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"testing"

	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestEncodings: values come back from each encoding that another library writes,
// on pages of both versions, with nulls between them.
func TestEncodings(t *testing.T) {
	const rows = 5000
	rng := rand.New(rand.NewPCG(7, 8))
	u32 := func(name string) schema.Node {
		return leaf(name, pq.Repetitions.Optional, schema.NewIntLogicalType(32, false), i32, -1)
	}
	for _, c := range []struct {
		node      func(name string) schema.Node
		encodings []pq.Encoding
		value     func() (any, float64)
	}{
		{func(n string) schema.Node { return optional(n, pq.Types.Boolean) }, []pq.Encoding{pq.Encodings.Plain, pq.Encodings.RLE},
			func() (any, float64) { b := rng.IntN(3) == 0; return b, map[bool]float64{true: 1}[b] }},
		{func(n string) schema.Node { return optional(n, i32) }, []pq.Encoding{pq.Encodings.Plain, pq.Encodings.DeltaBinaryPacked, pq.Encodings.ByteStreamSplit},
			func() (any, float64) { v := int32(rng.Uint32()); return v, float64(v) }},
		{u32, []pq.Encoding{pq.Encodings.Plain, pq.Encodings.DeltaBinaryPacked, pq.Encodings.ByteStreamSplit},
			func() (any, float64) { v := int32(rng.Uint32()); return v, float64(uint32(v)) }},
		{func(n string) schema.Node { return optional(n, i64) }, []pq.Encoding{pq.Encodings.Plain, pq.Encodings.DeltaBinaryPacked, pq.Encodings.ByteStreamSplit},
			func() (any, float64) { v := int64(rng.Uint64()) >> rng.IntN(64); return v, float64(v) }},
		{func(n string) schema.Node { return optional(n, f32) }, []pq.Encoding{pq.Encodings.Plain, pq.Encodings.ByteStreamSplit},
			func() (any, float64) { v := rng.Float32(); return v, float64(v) }},
		{func(n string) schema.Node { return optional(n, f64) }, []pq.Encoding{pq.Encodings.Plain, pq.Encodings.ByteStreamSplit},
			func() (any, float64) { v := rng.Float64(); return v, v }},
	} {
		for _, encoding := range c.encodings {
			for _, version := range []pq.DataPageVersion{pq.DataPageV1, pq.DataPageV2} {
				name := fmt.Sprintf("%v in %v, page %v", c.node("a"), encoding, version)
				var list reflect.Value
				v := values{}
				var want [][]float64
				for range rows {
					value, number := c.value()
					if !list.IsValid() {
						list = reflect.MakeSlice(reflect.SliceOf(reflect.TypeOf(value)), 0, rows)
					}
					if rng.IntN(5) == 0 {
						v.defs, want = append(v.defs, 0), append(want, []float64{-1})
						continue
					}
					list = reflect.Append(list, reflect.ValueOf(value))
					v.defs, want = append(v.defs, 1), append(want, []float64{number})
				}
				v.of = list.Interface()
				path := write(t, temp(t, "a.parquet"), schema.FieldList{c.node("a")}, [][]values{{v}}, pq.WithDictionaryDefault(false),
					pq.WithEncoding(encoding), pq.WithDataPageVersion(version), pq.WithDataPageSize(3000), pq.WithBatchSize(300), pq.WithCompression(compress.Codecs.Snappy))
				fill := -1.0
				d, err := Open(context.Background(), path, Options{Fill: &fill, DType: dtype.F64})
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if got, _ := readRows(t, d); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: other values", name)
				}
			}
		}
	}
}

// TestTextEncodings: so do texts, as names of classes, and bytes.
func TestTextEncodings(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	var list []pq.ByteArray
	for i := range 3000 {
		b := fmt.Appendf(nil, "file/%06d/%d", i/3, i)
		list = append(list, b[:len(b)-rng.IntN(3)])
	}
	for _, encoding := range []pq.Encoding{pq.Encodings.Plain, pq.Encodings.DeltaLengthByteArray, pq.Encodings.DeltaByteArray} {
		path := write(t, temp(t, "a.parquet"), schema.FieldList{required("a", pq.Types.ByteArray)}, [][]values{{{of: list}}},
			pq.WithDictionaryDefault(false), pq.WithEncoding(encoding), pq.WithDataPageSize(3000), pq.WithBatchSize(300))
		d, err := OpenFiles(context.Background(), path, FileOptions{})
		testkit.OK(t, err)
		r, err := d.NewFileReader()
		testkit.OK(t, err)
		for i, want := range list {
			if got, err := r.ReadFile(context.Background(), i, nil); !bytes.Equal(got, want) || err != nil {
				t.Fatalf("%v: file %d: %q, %v, want %q", encoding, i, got, err, want)
			}
		}
	}
}

// bomb is a codec that has far more to unpack than its page says.
type bomb struct {
	compress.Codec
	compress.StreamingCodec
}

const bombBytes = 512 << 20

func (c bomb) blow(dst []byte) []byte {
	b := bytes.NewBuffer(dst[:0])
	w := c.NewWriter(b)
	zeros := make([]byte, 1<<20)
	for range bombBytes / len(zeros) {
		w.Write(zeros)
	}
	w.Close()
	return b.Bytes()
}

func (c bomb) Encode(dst, src []byte) []byte                 { return c.blow(dst) }
func (c bomb) EncodeLevel(dst, src []byte, level int) []byte { return c.blow(dst) }

// TestBomb: a page that expands beyond the size that its header claims is an
// error, in memory of that size.
func TestBomb(t *testing.T) {
	if testing.Short() {
		t.Skip("it packs 512 MiB of zeros three times")
	}
	for name, c := range map[string]compress.Compression{"gzip": compress.Codecs.Gzip, "zstd": compress.Codecs.Zstd, "brotli": compress.Codecs.Brotli} {
		codec, err := compress.GetCodec(c)
		testkit.OK(t, err)
		compress.RegisterCodec(c, bomb{codec, codec.(compress.StreamingCodec)})
		path := write(t, temp(t, "a.parquet"), schema.FieldList{required("a", f32)}, [][]values{{{of: []float32{1, 2, 3}}}}, pq.WithCompression(c), pq.WithDictionaryDefault(false))
		compress.RegisterCodec(c, codec)
		d, err := Open(context.Background(), path, Options{})
		testkit.OK(t, err)
		r, err := d.NewReader()
		testkit.OK(t, err)
		if n := allocated(func() { err = r.Read(context.Background(), dataset.Visit{}, make([]byte, 4)) }); n > 64<<20 {
			t.Errorf("%s: %d bytes of memory", name, n)
		}
		testkit.WantError(t, name, err, dataset.ErrDamaged, path, "page of 12 bytes")
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestClaims: what a page claims to have is an error beyond the room for pages,
// before there is memory for it.
func TestClaims(t *testing.T) {
	whole := smallFile(t, pq.WithCompression(compress.Codecs.Zstd), pq.WithDictionaryDefault(false))
	at := bytes.Index(whole, []byte{0x15, 0x00, 0x15}) // the first header: type 0, then the size
	if at < 0 {
		t.Fatal("no header of a page")
	}
	_, k := binary.Uvarint(whole[at+3:])
	huge := append(bytes.Clone(whole[:at+3]), binary.AppendUvarint(nil, 2*(1<<31-1))...)
	huge = append(huge, whole[at+3+k:]...)
	path := temp(t, "b.parquet")
	testkit.OK(t, os.WriteFile(path, huge, 0o666))
	d, err := OpenFiles(context.Background(), path, FileOptions{Column: "image", CacheBytes: 1 << 20})
	if err == nil {
		var r dataset.FileReader
		r, err = d.NewFileReader()
		testkit.OK(t, err)
		if n := allocated(func() { _, err = r.ReadFile(context.Background(), 0, nil) }); n > 64<<20 {
			t.Errorf("%d bytes of memory", n)
		}
	}
	testkit.WantError(t, "a page of 2 GiB", err, dataset.ErrTooLarge, "pages need")
}
