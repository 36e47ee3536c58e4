package parquet

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// smallFile is a file that has a bit of everything.
func smallFile(t testing.TB, props ...pq.WriterProperty) []byte {
	fields := append(imageFields(), required("a", f32), optional("b", i32), listOf("x", f64))
	group := append(images([][]byte{[]byte("one"), nil, []byte("three")}, []int64{1, 0, 1}),
		values{of: []float32{1, 2, 3}}, values{of: []int32{4}, defs: []int16{0, 1, 0}}, lists([]float64{1, 2}, []float64{}, []float64{3}))
	b, err := os.ReadFile(write(t, temp(t, "a.parquet"), fields, [][]values{group, group}, props...))
	testkit.OK(t, err)
	return b
}

// readAny reads all of a file in three ways.
func readAny(t testing.TB, path string) {
	ctx := context.Background()
	fill := 1.0
	for _, opts := range []Options{{Columns: []string{"a", "b"}, Label: "label", Fill: &fill}, {Columns: []string{"x"}}, {Columns: []string{"x"}, Length: 2}} {
		opts.CacheBytes = 1 << 20
		d, err := Open(context.Background(), path, opts)
		if err != nil {
			known(t, err)
			continue
		}
		r, err := d.NewReader()
		testkit.OK(t, err)
		for i := range min(d.Len(), 100) {
			known(t, r.Read(ctx, dataset.Visit{Index: i}, make([]byte, dataset.SampleBytes(d, i))))
		}
	}
	d, err := OpenFiles(context.Background(), path, FileOptions{Column: "image", Label: "label", CacheBytes: 1 << 20})
	if err != nil {
		known(t, err)
		return
	}
	r, err := d.NewFileReader()
	testkit.OK(t, err)
	for i := range min(d.Len(), 100) {
		_, err := r.ReadFile(ctx, i, nil)
		known(t, err)
	}
}

// known checks that an error is one of those that are promised.
func known(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, kind := range []error{dataset.ErrDamaged, dataset.ErrFormat, dataset.ErrEmpty, dataset.ErrTooLarge, dataset.ErrArgument} {
		if errors.Is(err, kind) {
			return
		}
	}
	t.Errorf("an error of no kind: %v", err)
}

// TestTruncated: a file that is cut short is an error wherever it was cut.
func TestTruncated(t *testing.T) {
	whole := smallFile(t)
	path := temp(t, "b.parquet")
	for n := 0; n < len(whole); n += 1 + n/40 {
		testkit.OK(t, os.WriteFile(path, whole[:n], 0o666))
		_, err := Open(context.Background(), path, Options{Columns: []string{"a"}})
		kind := dataset.ErrDamaged
		if n < 12 {
			kind = dataset.ErrFormat
		}
		testkit.WantError(t, "cut", err, kind, path)
	}
}

// TestCorrupt: files with bytes changed at random give samples or errors, and
// neither panics nor great allocations.
func TestCorrupt(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	path := temp(t, "b.parquet")
	for _, codec := range []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Zstd, compress.Codecs.Gzip} {
		whole := smallFile(t, pq.WithCompression(codec))
		for range 150 {
			bad := append([]byte(nil), whole...)
			for range 1 + rng.IntN(4) {
				bad[rng.IntN(len(bad))] = byte(rng.Uint32())
			}
			testkit.OK(t, os.WriteFile(path, bad, 0o666))
			readAny(t, path)
		}
	}
}

// TestLyingFooter: a list of a footer that claims more than there is room for
// takes no memory.
func TestLyingFooter(t *testing.T) {
	claim := binary.AppendUvarint(nil, 1<<26)
	for name, footer := range map[string][]byte{
		"schema elements": append([]byte{0x15, 0x02, 0x19, 0xfc}, claim...),
		"row groups":      append([]byte{0x49, 0xfc}, claim...),
		"text":            append([]byte{0x68}, claim...),
		"nothing":         {},
		"deep":            make([]byte, 0, 100),
	} {
		if name == "deep" {
			for range 100 {
				footer = append(footer, 0x1c)
			}
		}
		b := append([]byte("PAR1"), footer...)
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), "PAR1"...)
		path := temp(t, "a.parquet")
		testkit.OK(t, os.WriteFile(path, b, 0o666))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(context.Background(), path, Options{})
		runtime.ReadMemStats(&after)
		testkit.WantError(t, name, err, dataset.ErrDamaged, path)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: %d bytes of memory for a file of %d", name, n, len(b))
		}
	}
}

// TestForeign: what is no Parquet file says so.
func TestForeign(t *testing.T) {
	for _, text := range []string{"", "PAR1", "a,b\n1,2\n3,4\n5,6\n", "PARE....PARE........PARE"} {
		path := temp(t, "a.parquet")
		testkit.OK(t, os.WriteFile(path, []byte(text), 0o666))
		_, err := Open(context.Background(), path, Options{})
		testkit.WantError(t, text, err, dataset.ErrFormat, path)
	}
	_, err := Open(context.Background(), os.DevNull, Options{})
	testkit.WantError(t, "a device", err, dataset.ErrFormat, "not a regular file")
}

func FuzzOpen(f *testing.F) {
	f.Add(smallFile(f))
	f.Add(smallFile(f, pq.WithCompression(compress.Codecs.Zstd), pq.WithDataPageVersion(pq.DataPageV2)))
	f.Add(smallFile(f, pq.WithCompression(compress.Codecs.Snappy), pq.WithDictionaryDefault(false)))
	f.Add([]byte("PAR1\x00\x01\x00\x00\x00PAR1"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := os.CreateTemp(dir, "*.parquet")
		testkit.OK(t, err)
		defer os.Remove(file.Name())
		_, err = file.Write(b)
		testkit.OK(t, errors.Join(err, file.Close()))
		readAny(t, file.Name())
	})
}
