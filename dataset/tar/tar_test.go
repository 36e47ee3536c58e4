package tar

import (
	archive "archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dataset/npy"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/dataset/shard"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// tarOf makes a tar of names and contents in turn.
func tarOf(t testing.TB, members ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := archive.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		h := &archive.Header{Name: members[i], Size: int64(len(members[i+1])), Mode: 0o644, Typeflag: archive.TypeReg}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, members[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// noCache keeps tests out of the user's cache.
var noCache = Options{Shards: shard.Options{NoCache: true}}

// points is a .npy file of rows times 2 float32, each its number.
func points(rows int) string {
	var data []byte
	for i := range rows * 2 {
		data = binary.LittleEndian.AppendUint32(data, uint32(i))
	}
	return string(datatest.NPY(1, datatest.NPYHeader("<f4", rows, 2), data))
}

func TestOpenTar(t *testing.T) {
	gray := func(v byte) string { return string(datatest.PNG(t, v)) }
	pictures := tarOf(t, "1.txt", "one", "1.png", gray(1), "1.cls", "4", "2.txt", "two", "3.png", gray(3), "3.cls", "5")
	dir := datatest.Folder(t, map[string][]byte{
		"train/a.tar": pictures, "train/b.tar": tarOf(t, "4.png", gray(4)), "train/README": []byte("x"),
		"anything":      pictures,
		"arrays.tar":    tarOf(t, "1.npy", points(3), "1.cls", "1", "2.npy", points(3)),
		"text.tar":      tarOf(t, "1.txt", "x"),
		"zipped.tar.gz": []byte("\x1f\x8b" + strings.Repeat("x", 600)),
	})
	pictures4 := photos.Options{Transform: imaging.CenterCrop(4)}
	for location, want := range map[string]string{
		"train": "a.tar/1.png 4 1, a.tar/3.png 5 3, b.tar/4.png -1 4", "anything": "1.png 4 1, 3.png 5 3", "train/{a,b}.tar": "a.tar/1.png 4 1, a.tar/3.png 5 3, b.tar/4.png -1 4",
	} {
		d, err := Open(t.Context(), filepath.Join(dir, location), noCache, pictures4)
		if err != nil {
			t.Errorf("%s: %v", location, err)
			continue
		}
		r, err := d.NewReader()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		dst := make([]byte, d.Spec().Bytes())
		for i := range d.Len() {
			if err := r.Read(t.Context(), dataset.Visit{Index: i}, dst); err != nil {
				t.Error(err)
			}
			name, _ := filepath.Rel(filepath.Join(dir, strings.TrimSuffix(location, "/{a,b}.tar")), d.Name(i))
			got = append(got, fmt.Sprintf("%s %d %d", filepath.ToSlash(name), d.Label(i), dst[0]))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: %s", location, text)
		}
		if c := dataset.Classes(d); c != nil {
			t.Errorf("classes %q", c)
		}
		if err := errors.Join(r.Close(), r.Close(), d.(io.Closer).Close(), d.(io.Closer).Close()); err != nil {
			t.Error(err)
		}
		if err := r.Read(t.Context(), dataset.Visit{Index: 0}, dst); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	d, err := Open(t.Context(), filepath.Join(dir, "arrays.tar"), noCache, pictures4)
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := dataset.As[*npy.Arrays](d); !ok || a.Len() != 2 || a.Spec().String() != "3x2 f32" || a.Label(0) != 1 || dataset.Close(d) != nil {
		t.Errorf("arrays: %v", d)
	}
	for location, c := range map[string]struct {
		err  error
		text string
	}{
		"text.tar":      {dataset.ErrEmpty, "extension jpg, jpeg, png, webp; the first has txt"},
		"zipped.tar.gz": {dataset.ErrFormat, "gzip -d"},
		"missing.tar":   {fs.ErrNotExist, "missing.tar"},
		"no-{0..2}.tar": {fs.ErrNotExist, "no-0.tar"},
	} {
		if _, err := Open(t.Context(), filepath.Join(dir, location), noCache, pictures4); !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", location, err)
		}
	}
	pictures4.Transform = imaging.CenterCrop(-1)
	if _, err := Open(t.Context(), filepath.Join(dir, "train"), noCache, pictures4); !errors.Is(err, dataset.ErrArgument) {
		t.Error(err)
	}
}

// TestBadShard: in a folder of shards, one that cannot be read is a sample that
// fails, of pictures and of arrays.
func TestBadShard(t *testing.T) {
	picture := tarOf(t, "1.png", string(datatest.PNG(t, 1)))
	dir := datatest.Folder(t, map[string][]byte{
		"pictures/a.tar": picture[:600], "pictures/b.tar": picture,
		"arrays/a.tar": []byte("no tar"), "arrays/b.tar": tarOf(t, "1.npy", points(3)),
		"ragged/a.tar": []byte("no tar"), "ragged/b.tar": tarOf(t, "1.npy", points(3), "2.npy", points(4)),
	})
	for name, kind := range map[string]error{"pictures": dataset.ErrDamaged, "arrays": dataset.ErrFormat, "ragged": dataset.ErrFormat} {
		d, err := Open(t.Context(), filepath.Join(dir, name), noCache, photos.Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if w := dataset.Warnings(d); len(w) != 1 || !strings.Contains(w[0], "1 of 2 shards") {
			t.Errorf("%s: warnings %q", name, w)
		}
		if d.Spec().Ragged != (name == "ragged") || d.Name(0) != filepath.Join(dir, name, "a.tar") {
			t.Errorf("%s: %v, sample 0 is %s", name, d.Spec(), d.Name(0))
		}
		r := testkit.Must(d.NewReader())(t)
		for i := range d.Len() {
			err := r.Read(t.Context(), dataset.Visit{Index: i}, make([]byte, dataset.SampleBytes(d, i)))
			if (i == 0) != errors.Is(err, kind) || i > 0 && err != nil {
				t.Errorf("%s: sample %d: %v", name, i, err)
			}
		}
		testkit.OK(t, errors.Join(r.Close(), dataset.Close(d)))
	}
}

func TestTarReader(t *testing.T) {
	path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "x.tar"), tarOf(t, "1.txt", "one", "2.txt", "two"))
	set, err := shard.Open(t.Context(), path, noCache.Shards)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	files, err := NewFiles(set, "txt")
	if err != nil {
		t.Fatal(err)
	}
	r, _ := files.NewFileReader()
	if content, err := r.ReadFile(t.Context(), 1, nil); string(content) != "two" || err != nil {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := r.ReadFile(t.Context(), 2, nil); !errors.Is(err, dataset.ErrArgument) {
		t.Error(err)
	}
	r.Close()
	if _, err := r.ReadFile(t.Context(), 1, nil); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	files.Close() // the set stays the caller's
	if content, err := set.Read(t.Context(), 0, "txt", nil); string(content) != "one" || err != nil || files.Set() != set {
		t.Errorf("%q, %v", content, err)
	}
}

func TestArrays(t *testing.T) {
	ragged := []string{"1.npy", points(3), "2.npy", points(7), "3.npy", points(1)}
	path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "x.tar"), tarOf(t, ragged...))
	files, err := OpenFiles(t.Context(), path, Options{Shards: noCache.Shards, Extensions: []string{"npy"}})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	d, err := npy.NewArrays(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	if s := d.Spec().String(); s != "<=7x2 f32" {
		t.Errorf("spec %s", s)
	}
	r, err := d.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	for i, rows := range []int{3, 7, 1} {
		if n := dataset.Length(d, i); n != rows {
			t.Errorf("sample %d has length %d", i, n)
		}
		dst := make([]byte, dataset.SampleBytes(d, i))
		if err := r.Read(t.Context(), dataset.Visit{Index: i}, dst); err != nil || string(dst) != ragged[2*i+1][128:] {
			t.Errorf("sample %d: %v", i, err)
		}
	}
	if err := r.Read(t.Context(), dataset.Visit{Index: 3}, nil); !errors.Is(err, dataset.ErrArgument) {
		t.Error(err)
	}
	if err := r.Read(t.Context(), dataset.Visit{Index: 0}, make([]byte, 56)); !errors.Is(err, dataset.ErrArgument) {
		t.Error(err)
	}
	r.Close()
	if err := r.Read(t.Context(), dataset.Visit{Index: 0}, make([]byte, 24)); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}

// TestEmptyArrays: a photo may have no boxes.
func TestEmptyArrays(t *testing.T) {
	for _, c := range []struct {
		members []string
		spec    string
		lengths []int
	}{
		{[]string{"1.npy", points(0), "2.npy", points(2), "3.npy", points(0)}, "<=2x2 f32", []int{0, 2, 0}},
		{[]string{"1.npy", points(3), "2.npy", points(0)}, "<=3x2 f32", []int{3, 0}},
	} {
		path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "x.tar"), tarOf(t, c.members...))
		d, err := Open(t.Context(), path, noCache, photos.Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		var lengths []int
		for i, sample := range datatest.Samples(t, d) {
			lengths = append(lengths, dataset.Length(d, i))
			if string(sample) != c.members[2*i+1][128:] {
				t.Errorf("sample %d: %d bytes", i, len(sample))
			}
		}
		if d.Spec().String() != c.spec || !slices.Equal(lengths, c.lengths) {
			t.Errorf("%v, lengths %v; want %s, %v", d.Spec(), lengths, c.spec, c.lengths)
		}
		d.(io.Closer).Close()
	}
	path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "x.tar"), tarOf(t, "1.npy", points(0), "2.npy", points(0)))
	_, err := Open(t.Context(), path, noCache, photos.Options{})
	testkit.WantError(t, "no rows", err, dataset.ErrEmpty, "no rows in 2 arrays")
	files, err := OpenFiles(t.Context(), path, Options{Shards: noCache.Shards, Extensions: []string{"npy"}})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	_, err = npy.NewArrays(t.Context(), struct{ dataset.Files }{files})
	testkit.WantError(t, "files without sizes", err, dataset.ErrEmpty, "1.npy: dataset is empty: a NumPy array of shape [0 2]")
}

// TestArraysDiffer: the first array decides, and errors name both.
func TestArraysDiffer(t *testing.T) {
	turned := string(datatest.NPY(1, datatest.NPYHeader("<f4", 2, 3), make([]byte, 24)))
	ints := string(datatest.NPY(1, datatest.NPYHeader("<i4", 3, 2), make([]byte, 24)))
	for name, c := range map[string]struct {
		members []string
		err     error
		text    string
	}{
		"no array":        {[]string{"1.npy", "x"}, dataset.ErrFormat, "1.npy: format not supported: not a NumPy file"},
		"cut short":       {[]string{"1.npy", points(3)[:130]}, dataset.ErrDamaged, "1.npy: "},
		"rows in part":    {[]string{"1.npy", points(3), "2.npy", points(3) + "x"}, dataset.ErrFormat, "2.npy: format not supported: 153 bytes are not an array like that of"},
		"less than a row": {[]string{"1.npy", points(3), "2.npy", ""}, dataset.ErrFormat, "0 bytes are not an array"},
		"another shape":   {[]string{"1.npy", points(3), "2.npy", turned}, dataset.ErrFormat, "an array of 2x3 f32, want 3x2 f32 as"},
		"another type":    {[]string{"1.npy", points(3), "2.npy", ints}, dataset.ErrFormat, "an array of 3x2 i32, want 3x2 f32 as"},
	} {
		path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "x.tar"), tarOf(t, c.members...))
		d, err := Open(t.Context(), path, noCache, photos.Options{})
		if err == nil {
			r, bad := d.NewReader()
			if bad != nil {
				t.Fatal(bad)
			}
			err = r.Read(t.Context(), dataset.Visit{Index: 1}, make([]byte, 24))
			r.Close()
			d.(io.Closer).Close()
		}
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestArraysOfFilesWithoutSizes are of the first one's shape.
func TestArraysOfFilesWithoutSizes(t *testing.T) {
	path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "x.tar"), tarOf(t, "1.npy", points(3), "2.npy", points(4)))
	files, err := OpenFiles(t.Context(), path, Options{Shards: noCache.Shards, Extensions: []string{"npy"}})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	d, err := npy.NewArrays(t.Context(), struct{ dataset.Files }{files})
	if err != nil || d.Spec().String() != "3x2 f32" || dataset.Length(d, 1) != 3 {
		t.Fatalf("%v, %v", d.Spec(), err)
	}
	r, _ := d.NewReader()
	defer r.Close()
	if err := r.Read(t.Context(), dataset.Visit{Index: 1}, make([]byte, 24)); !errors.Is(err, dataset.ErrFormat) || !strings.Contains(err.Error(), "4x2 f32, want 3x2 f32") {
		t.Error(err)
	}
}

func TestPackFolder(t *testing.T) {
	dir := datatest.Folder(t, map[string][]byte{"z.png": nil, "b/IMG.2020.PNG": datatest.PNG(t, 9), "b/deep.er/1.jpg": nil, "a/2.webp": nil})
	files, err := photos.OpenFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	shards := filepath.Join(t.TempDir(), "shards")
	if err := Pack(t.Context(), dir, shards, PackOptions{}); err != nil {
		t.Fatal(err)
	}
	packed, err := OpenFiles(t.Context(), shards, noCache)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, _ := packed.NewFileReader()
	var got []string
	for i := range packed.Len() {
		content, err := r.ReadFile(t.Context(), i, nil)
		if err != nil {
			t.Fatal(err)
		}
		if original, err := os.ReadFile(files.Name(i)); err != nil || !bytes.Equal(content, original) {
			t.Errorf("%s is not %s: %v", packed.Name(i), files.Name(i), err)
		}
		got = append(got, fmt.Sprint(strings.TrimPrefix(packed.Name(i), filepath.Join(shards, "shard-000000.tar")+"/"), " ", packed.Label(i)))
	}
	if names := packed.Classes(); !slices.Equal(names, files.Classes()) || !slices.Equal(names, []string{"", "a", "b"}) {
		t.Errorf("packed are the classes %q, want %q", names, files.Classes())
	}
	d, err := Open(t.Context(), shards, noCache, photos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.(io.Closer).Close()
	if names := dataset.Classes(d); !slices.Equal(names, files.Classes()) {
		t.Errorf("images have the classes %q, want %q", names, files.Classes())
	}
	if want := []string{"z.png 0", "a/2.webp 1", "b/IMG_2020.png 2", "b/deep.er/1.jpg 2"}; !slices.Equal(got, want) {
		t.Errorf("packed are %q, want %q", got, want)
	}
	twice := datatest.Folder(t, map[string][]byte{"a.jpg": nil, "a.png": nil})
	out := filepath.Join(t.TempDir(), "out")
	if err := Pack(t.Context(), twice, out, PackOptions{}); !errors.Is(err, dataset.ErrArgument) || !strings.Contains(err.Error(), "a.jpg") || !strings.Contains(err.Error(), "a.png") {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(out)); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	within := filepath.Join(dir, "b", "..", "shards")
	if err := Pack(t.Context(), dir, within, PackOptions{}); !errors.Is(err, dataset.ErrArgument) || !strings.Contains(err.Error(), "inside "+dir) {
		t.Error(err)
	}
	if _, err := os.Stat(within); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", within, err)
	}
}

// Labels that are text are classes of the dataset, by the option too.
func TestTextLabels(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	photo := string(datatest.PNG(t, 1))
	dir := datatest.Folder(t, map[string][]byte{
		"a.tar": tarOf(t, "1.png", photo, "1.txt", "dog\n", "2.png", photo, "2.txt", "cat"),
		"b.tar": tarOf(t, "3.png", photo, "3.txt", "bee", "4.png", photo, "4.json", `{"txt": "cat"}`),
	})
	d, err := dataset.Open(t.Context(), dir, dataset.Options{"label": "txt", "size": 4})
	if err != nil {
		t.Fatal(err)
	}
	_, labels := datatest.ReadAll(t, d)
	if names := dataset.Classes(d); !slices.Equal(names, []string{"bee", "cat", "dog"}) || !slices.Equal(labels, []int32{2, 1, 0, 1}) {
		t.Errorf("labels %v of %q", labels, names)
	}
	if err := dataset.Close(d); err != nil {
		t.Error(err)
	}
}
