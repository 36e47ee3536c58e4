package parquet

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// imageFields are those of datasets of images of the Hugging Face hub.
// TestLabelColumns: several columns of labels are targets, side by side, also over
// row groups and files.
func TestLabelColumns(t *testing.T) {
	dir := t.TempDir()
	fields := schema.FieldList{required("a", f32), required("x", i32), optional("y", f64), required("x,y", i32), text}
	group := func(k int32) []values {
		return []values{{of: []float32{float32(k), 0}}, {of: []int32{k, k + 1}}, {of: []float64{float64(k) / 2}, defs: []int16{1, 0}}, {of: []int32{7, 8}}, {of: []pq.ByteArray{}, defs: []int16{0, 0}}}
	}
	write(t, filepath.Join(dir, "0.parquet"), fields, [][]values{group(10), group(20)})
	write(t, filepath.Join(dir, "1.parquet"), fields, [][]values{group(30)})
	d, err := Open(context.Background(), dir, Options{Label: "x,a,y"})
	testkit.OK(t, err)
	if rows, labels := readRows(t, d); fmt.Sprint(rows, labels) != "[[7] [8] [7] [8] [7] [8]] [-1 -1 -1 -1 -1 -1]" {
		t.Errorf("samples %v, labels %v", rows, labels)
	}
	targets := dataset.Targets(d)
	if targets == nil || targets.Spec().String() != "3 f32" || targets.Len() != 6 {
		t.Fatalf("targets %v", targets)
	}
	r, err := targets.NewReader()
	testkit.OK(t, err)
	for i, want := range []string{"[10 10 5]", "[11 0 NaN]", "[20 20 10]", "[21 0 NaN]", "[30 30 15]", "[31 0 NaN]"} {
		b := make([]byte, 12)
		testkit.OK(t, r.Read(context.Background(), dataset.Visit{Index: i}, b))
		if got := fmt.Sprint(numbers(b, dtype.F32)); got != want {
			t.Errorf("row %d: %s, want %s", i, got, want)
		}
	}
	d, err = Open(context.Background(), dir, Options{Label: "x,y"}) // a column of that name
	testkit.OK(t, err)
	if d.Label(1) != 8 {
		t.Errorf("label %d", d.Label(1))
	}
	_, err = Open(context.Background(), dir, Options{Label: "x,text"})
	testkit.WantError(t, "text among several", err, dataset.ErrFormat, `"text" is text, want numbers`)
	_, err = Open(context.Background(), dir, Options{Label: "x,nosuch"})
	testkit.WantError(t, "no such column", err, dataset.ErrArgument, `no column "nosuch"`)
}

func imageFields() schema.FieldList {
	return schema.FieldList{
		node("image", pq.Repetitions.Optional, nil,
			optional("bytes", pq.Types.ByteArray),
			leaf("path", pq.Repetitions.Optional, schema.StringLogicalType{}, pq.Types.ByteArray, -1)),
		optional("label", i64),
	}
}

const huggingface = `{"info": {"features": {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}`

// images makes a row group; nil is a null.
func images(files [][]byte, labels []int64) []values {
	bytes, paths, numbers := values{}, values{}, values{of: labels}
	var have, names []pq.ByteArray
	for i, f := range files {
		level := int16(2)
		if f == nil {
			level = 1
		} else {
			have = append(have, f)
		}
		bytes.defs, paths.defs, numbers.defs = append(bytes.defs, level), append(paths.defs, 2), append(numbers.defs, 1)
		names = append(names, []byte(fmt.Sprintf("%d.jpg", i)))
	}
	bytes.of, paths.of = have, names
	return []values{bytes, paths, numbers}
}

func TestFiles(t *testing.T) {
	content := [][]byte{[]byte("first"), nil, {}, bytes.Repeat([]byte("x"), 1000), []byte("last")}
	path := writeMeta(t, temp(t, "a.parquet"), imageFields(),
		[][]values{images(content[:3], []int64{0, 1, 1}), images(content[3:], []int64{0, -1})}, map[string]string{"huggingface": huggingface})
	d, err := OpenFiles(context.Background(), path, FileOptions{Label: "label", MaxFileBytes: 999})
	testkit.OK(t, err)
	if d.Len() != 5 || !slices.Equal(d.Classes(), []string{"cat", "dog"}) || !slices.Equal(d.Shards(), []int{3, 2}) {
		t.Errorf("%d files, %q, %v", d.Len(), d.Classes(), d.Shards())
	}
	r, err := d.NewFileReader()
	testkit.OK(t, err)
	ctx := context.Background()
	buf := make([]byte, 0, 100)
	for i, want := range content {
		got, err := r.ReadFile(ctx, i, buf)
		switch i {
		case 1:
			testkit.WantError(t, "null", err, dataset.ErrFormat, path+"[1]", `"image.bytes" is null`)
			continue
		case 3:
			testkit.WantError(t, "limit", err, dataset.ErrTooLarge, path+"[3]", "1000 bytes, the limit is 999")
			continue
		}
		if err != nil || !bytes.Equal(got, want) || len(got) > 0 && &got[0] != &buf[:1][0] {
			t.Errorf("file %d: %q, %v", i, got, err)
		}
	}
	if labels := []int32{d.Label(0), d.Label(1), d.Label(4)}; !slices.Equal(labels, []int32{0, 1, -1}) {
		t.Error(labels)
	}
	_, err = r.ReadFile(ctx, 5, nil)
	testkit.WantError(t, "index", err, dataset.ErrArgument, "5 of 5")
	testkit.OK(t, r.Close())
	_, err = r.ReadFile(ctx, 0, nil)
	testkit.WantError(t, "closed", err, fs.ErrClosed)
}

func TestOpenFilesErrors(t *testing.T) {
	two := schema.FieldList{required("a", pq.Types.ByteArray), required("b", pq.Types.ByteArray)}
	blobs := values{of: []pq.ByteArray{[]byte("12345678")}}
	for _, c := range []struct {
		name   string
		fields schema.FieldList
		values []values
		opts   FileOptions
		kind   error
		says   string
	}{
		{"none", schema.FieldList{text}, []values{{of: []pq.ByteArray{[]byte("x")}, defs: []int16{1}}}, FileOptions{}, dataset.ErrFormat, "no column of bytes"},
		{"two", two, []values{blobs, blobs}, FileOptions{}, dataset.ErrArgument, `bytes in "a", "b"`},
		{"numbers", schema.FieldList{required("a", f32)}, []values{{of: []float32{1}}}, FileOptions{Column: "a"}, dataset.ErrFormat, "want bytes"},
		{"the cache", schema.FieldList{required("a", pq.Types.ByteArray)}, []values{blobs}, FileOptions{CacheBytes: 10}, dataset.ErrTooLarge, "the cache 10"},
	} {
		_, err := OpenFiles(context.Background(), write(t, temp(t, "a.parquet"), c.fields, [][]values{c.values}), c.opts)
		testkit.WantError(t, c.name, err, c.kind, c.says)
	}
}

// TestDictionaryOfFiles: a dictionary makes a small file large. That is noticed
// while it is decoded, and is within the cache or an error.
func TestDictionaryOfFiles(t *testing.T) {
	one := bytes.Repeat([]byte("0123456789"), 1000)
	var same []pq.ByteArray
	for range 100 {
		same = append(same, one)
	}
	path := write(t, temp(t, "a.parquet"), schema.FieldList{required("a", pq.Types.ByteArray)}, [][]values{{{of: same}}, {{of: same}}}, pq.WithDictionaryDefault(true))
	if info, err := os.Stat(path); err != nil || info.Size() > 100_000 {
		t.Fatalf("no dictionary: %v, %v", info, err)
	}
	d, err := OpenFiles(context.Background(), path, FileOptions{CacheBytes: 3 << 20})
	testkit.OK(t, err)
	r, err := d.NewFileReader()
	testkit.OK(t, err)
	for i := range d.Len() {
		if got, err := r.ReadFile(context.Background(), i, nil); err != nil || !bytes.Equal(got, one) {
			t.Fatalf("file %d: %d bytes, %v", i, len(got), err)
		}
		if d.cache.used > d.cache.max {
			t.Fatalf("%d bytes in a cache of %d", d.cache.used, d.cache.max)
		}
	}
	d, err = OpenFiles(context.Background(), path, FileOptions{CacheBytes: 900_000})
	testkit.OK(t, err)
	r, err = d.NewFileReader()
	testkit.OK(t, err)
	_, err = r.ReadFile(context.Background(), 0, nil)
	testkit.WantError(t, "too large", err, dataset.ErrTooLarge, path, "more than 900000 bytes")
}

// TestFilesThatJustFit: a row group that fills the cache is read again after
// another one has taken its place.
func TestFilesThatJustFit(t *testing.T) {
	one := bytes.Repeat([]byte("x"), 1000)
	same := slices.Repeat([]pq.ByteArray{one}, 100)
	path := write(t, temp(t, "a.parquet"), schema.FieldList{required("a", pq.Types.ByteArray)}, [][]values{{{of: same}}, {{of: same}}}, pq.WithDictionaryDefault(true))
	d, err := OpenFiles(context.Background(), path, FileOptions{CacheBytes: 100*1000 + 8*101})
	testkit.OK(t, err)
	r, err := d.NewFileReader()
	testkit.OK(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, i := range []int{0, 100, 1, 101} {
		if got, err := r.ReadFile(ctx, i, nil); err != nil || !bytes.Equal(got, one) {
			t.Fatalf("file %d: %d bytes, %v", i, len(got), err)
		}
		if d.cache.used > d.cache.max {
			t.Fatalf("%d bytes in a cache of %d", d.cache.used, d.cache.max)
		}
	}
}

// TestFilesModel: files of all sizes, over many pages and groups.
func TestFilesModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 12 {
		var groups [][]values
		var want [][]byte
		for range 1 + rng.IntN(4) {
			var files [][]byte
			for range 1 + rng.IntN(300) {
				f := make([]byte, rng.IntN(2000)*rng.IntN(2))
				for i := range f {
					f[i] = byte(rng.Uint32())
				}
				files = append(files, f)
			}
			groups = append(groups, images(files, make([]int64, len(files))))
			want = append(want, files...)
		}
		path := write(t, temp(t, "a.parquet"), imageFields(), groups, pq.WithDataPageSize(int64(1+rng.IntN(20_000))), pq.WithBatchSize(10), pq.WithDictionaryDefault(round%2 == 0))
		d, err := OpenFiles(context.Background(), path, FileOptions{Column: "image", CacheBytes: 2 << 20})
		testkit.OK(t, err)
		r, err := d.NewFileReader()
		testkit.OK(t, err)
		for _, i := range rng.Perm(d.Len())[:min(d.Len(), 100)] {
			if got, err := r.ReadFile(context.Background(), i, nil); err != nil || !bytes.Equal(got, want[i]) {
				t.Fatalf("round %d: %s: %d bytes, want %d, %v", round, d.Name(i), len(got), len(want[i]), err)
			}
		}
	}
}

// TestImages: pictures from Parquet are those of the folder.
func TestImages(t *testing.T) {
	dir := t.TempDir()
	testkit.OK(t, samplephotos.Make(context.Background(), filepath.Join(dir, "photos"), 6, nil))
	folder, err := photos.OpenFolder(t.Context(), filepath.Join(dir, "photos"))
	testkit.OK(t, err)
	fr, err := folder.NewFileReader()
	testkit.OK(t, err)
	var files [][]byte
	var labels []int64
	for i := range folder.Len() {
		content, err := fr.ReadFile(context.Background(), i, nil)
		testkit.OK(t, err)
		files, labels = append(files, content), append(labels, int64(folder.Label(i)))
	}
	path := write(t, filepath.Join(dir, "train.parquet"), imageFields(), [][]values{images(files[:4], labels[:4]), images(files[4:], labels[4:])})
	packed, err := OpenFiles(context.Background(), path, FileOptions{Label: "label"})
	testkit.OK(t, err)
	opts := photos.Options{Transform: imaging.CenterCrop(32)}
	a, err := photos.New(folder, opts)
	testkit.OK(t, err)
	b, err := photos.New(packed, opts)
	testkit.OK(t, err)
	read := func(d *photos.Images, i int) []byte {
		r, err := d.NewReader()
		testkit.OK(t, err)
		defer r.Close()
		sample := make([]byte, d.Spec().Bytes())
		testkit.OK(t, r.Read(context.Background(), dataset.Visit{Index: i}, sample))
		return sample
	}
	for i := range a.Len() {
		if !bytes.Equal(read(a, i), read(b, i)) || a.Label(i) != b.Label(i) {
			t.Errorf("%s differs from %s", b.Name(i), a.Name(i))
		}
	}
}
