package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
)

// plain is a PNG of one grey.
func plain(t testing.TB, gray byte) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 12, 9))
	for i := range m.Pix {
		m.Pix[i] = gray
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, m); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// folder writes files; their content is a PNG if it is nil.
func folder(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if data == nil {
			data = plain(t, 7)
		}
		writeFile(t, filepath.Join(dir, filepath.FromSlash(name)), data)
	}
	return dir
}

// listing is "name label" of every sample.
func listing(t testing.TB, d Dataset, dir string) []string {
	t.Helper()
	var list []string
	for i := range d.Len() {
		name, err := filepath.Rel(dir, d.Name(i))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprint(filepath.ToSlash(name), " ", d.Label(i)))
	}
	return list
}

func TestImageFolderListing(t *testing.T) {
	other := []byte("not an image")
	tests := []struct {
		name    string
		files   map[string][]byte
		classes []string
		want    []string
	}{
		{
			"classes",
			map[string][]byte{"dog/b.PNG": nil, "dog/a.Jpeg": nil, "cat/1.jpg": nil, "cat/notes.txt": other, "cat/2.webp": nil, "README": other},
			[]string{"cat", "dog"},
			[]string{"cat/1.jpg 0", "cat/2.webp 0", "dog/a.Jpeg 1", "dog/b.PNG 1"},
		},
		{
			"nested",
			map[string][]byte{"a/z.png": nil, "a/deep/er/x.png": nil, "a/b.png": nil, "c/y.png": nil},
			[]string{"a", "c"},
			[]string{"a/b.png 0", "a/deep/er/x.png 0", "a/z.png 0", "c/y.png 1"},
		},
		{
			"flat",
			map[string][]byte{"2.png": nil, "1.png": nil, "10.png": nil},
			[]string{""},
			[]string{"1.png 0", "10.png 0", "2.png 0"},
		},
		{
			"mixed",
			map[string][]byte{"z.png": nil, "a/x.png": nil},
			[]string{"", "a"},
			[]string{"z.png 0", "a/x.png 1"},
		},
		{
			"hidden",
			map[string][]byte{".cache/x.png": nil, "a/.x.png": nil, "a/y.png": nil, "a/.git/z.png": nil, ".png": nil},
			[]string{"a"},
			[]string{"a/y.png 0"},
		},
		{
			"a class without images keeps its label",
			map[string][]byte{"a/x.png": nil, "b/x.txt": other, "c/x.png": nil, "d.png/e.png": nil},
			[]string{"a", "b", "c", "d.png"},
			[]string{"a/x.png 0", "c/x.png 2", "d.png/e.png 3"},
		},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t, c.files)
			d, err := OpenImageFolder(t.Context(), dir, ImageOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Classes(); !slices.Equal(got, c.classes) {
				t.Errorf("classes %q, want %q", got, c.classes)
			}
			if got := listing(t, d, dir); !slices.Equal(got, c.want) {
				t.Errorf("files %q, want %q", got, c.want)
			}
		})
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
}

func TestImageFolderLinks(t *testing.T) {
	dir := folder(t, map[string][]byte{"a/x.png": nil})
	elsewhere := folder(t, map[string][]byte{"y.png": nil, "sub/z.png": nil})
	link(t, filepath.Join(elsewhere, "y.png"), filepath.Join(dir, "a", "linked.png"))
	link(t, elsewhere, filepath.Join(dir, "b")) // a class
	link(t, elsewhere, filepath.Join(dir, "a", "deeper"))
	link(t, dir, filepath.Join(dir, "a", "loop"))
	link(t, dir, filepath.Join(dir, "loop"))
	link(t, filepath.Dir(dir), filepath.Join(dir, "parent.png"))
	through := filepath.Join(t.TempDir(), "link")
	link(t, dir, through)
	want := []string{"a/linked.png 0", "a/x.png 0", "b/sub/z.png 1", "b/y.png 1"}
	for _, path := range []string{dir, through} {
		d, err := OpenImageFolder(t.Context(), path, ImageOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := listing(t, d, path); !slices.Equal(got, want) {
			t.Errorf("files %q, want %q", got, want)
		}
	}
	dangling := filepath.Join(dir, "a", "gone.jpg")
	link(t, filepath.Join(dir, "nowhere"), dangling)
	if _, err := OpenImageFolder(t.Context(), dir, ImageOptions{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dangling) {
		t.Errorf("dangling link: %v", err)
	}
}

func TestImageFolderOpenErrors(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "x.jpg"), nil)
	words := folder(t, map[string][]byte{"a/1.txt": {}, "a/2.gif": {}, "b.md": {}})
	empty := t.TempDir()
	missing := filepath.Join(empty, "nothing")
	tests := []struct {
		name, path string
		opts       ImageOptions
		err        error
		text       string
	}{
		{"missing", missing, ImageOptions{}, fs.ErrNotExist, missing},
		{"file", file, ImageOptions{}, ErrFormat, "not a folder"},
		{"empty", empty, ImageOptions{}, ErrEmpty, "no files; looked for .jpg, .jpeg, .png, .webp"},
		{"no images", words, ImageOptions{}, ErrEmpty, "none of 3 files ends in .jpg, .jpeg, .png, .webp"},
		{"size", words, ImageOptions{Transform: imaging.CenterCrop(-1)}, ErrArgument, "-1"},
	}
	for _, c := range tests {
		_, err := OpenImageFolder(t.Context(), c.path, c.opts)
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	t.Run("unreadable", func(t *testing.T) {
		dir := folder(t, map[string][]byte{"a/x.png": nil, "b/x.png": nil})
		locked := filepath.Join(dir, "b")
		if err := os.Chmod(locked, 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(locked, 0o755)
		if _, err := os.ReadDir(locked); err == nil {
			t.Skip("this user may read everything")
		}
		if _, err := OpenImageFolder(t.Context(), dir, ImageOptions{}); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), locked) {
			t.Errorf("unreadable: %v", err)
		}
	})
}

func TestImageFolderRead(t *testing.T) {
	photo, err := samplephotos.Photo(1)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"photo/a.png": photo} // its name lies
	for i := range 20 {
		files[fmt.Sprintf("gray/%02d.png", i)] = plain(t, byte(i))
	}
	dir := folder(t, files)
	for _, transform := range []imaging.Transform{
		imaging.CenterCrop(32), imaging.Stretch(32, 32), imaging.RandomResizedCrop(32).WithFlip(0.5),
	} {
		d, err := OpenImageFolder(t.Context(), dir, ImageOptions{Transform: transform})
		if err != nil {
			t.Fatal(err)
		}
		if s := d.Spec(); s.DType != dtype.U8 || !slices.Equal(s.Shape, []int{32, 32, 3}) || s.Bytes() != 3072 {
			t.Fatalf("spec %v", s)
		}
		together(t, d, 3, func(w int, r Reader) {
			dst := make([]byte, d.Spec().Bytes())
			for i := w; i < 20; i += 3 {
				if err := r.Read(t.Context(), Visit{Index: i}, dst); err != nil {
					t.Error(err)
				}
				for _, v := range dst {
					if v != byte(i) {
						t.Errorf("sample %d is %d", i, v)
						break
					}
				}
			}
		})

		r, _ := d.NewReader()
		defer r.Close()
		got, want := make([]byte, 3072), make([]byte, 3072)
		var timing Timing
		if err := r.Read(t.Context(), Visit{Index: 20, Key: 77, Timing: &timing}, got); err != nil {
			t.Fatal(err)
		}
		if timing.Read <= 0 || timing.Decode <= 0 || timing.Resize <= 0 || timing.Read > time.Minute {
			t.Errorf("timing %+v", timing)
		}
		decoder := imaging.NewDecoder(imaging.Options{})
		defer decoder.Close()
		if err := decoder.DecodeTransformed(context.Background(), want, photo, transform, 77); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: differs from package imaging: %v", transform, err)
		}
	}
}

// TestImagePixels: samples of other types and channels, alone and behind what
// combines datasets.
func TestImagePixels(t *testing.T) {
	m := image.NewGray16(image.Rect(0, 0, 12, 9))
	for i := range m.Pix {
		m.Pix[i] = byte(31 * i)
	}
	var deep bytes.Buffer
	if err := png.Encode(&deep, m); err != nil {
		t.Fatal(err)
	}
	dir := folder(t, map[string][]byte{"a/0.png": deep.Bytes(), "b/1.png": plain(t, 200)})
	transform := imaging.RandomResizedCrop(6).WithFlip(0.5)
	specs := map[string]bool{}
	for _, o := range []imaging.Options{{}, {Channels: 1}, {DType: dtype.U16}, {DType: dtype.U16, Channels: 1}} {
		d, err := OpenImageFolder(t.Context(), dir, ImageOptions{Transform: transform, Decode: o})
		if err != nil {
			t.Fatal(err)
		}
		spec := d.Spec()
		specs[spec.String()] = true
		both, err := NewConcat(d, d)
		if err != nil {
			t.Fatal(err)
		}
		r, err := both.NewReader()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		decoder := imaging.NewDecoder(o)
		defer decoder.Close()
		for i, file := range [][]byte{deep.Bytes(), plain(t, 200)} {
			got, want := make([]byte, spec.Bytes()), make([]byte, decoder.Bytes(transform))
			if err := decoder.DecodeTransformed(context.Background(), want, file, transform, 5); err != nil {
				t.Fatal(err)
			}
			if err := r.Read(t.Context(), Visit{Index: 2 + i, Key: 5}, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v: sample %d is % x, want % x: %v", spec, i, got, want, err)
			}
		}
		if err := r.Read(t.Context(), Visit{}, make([]byte, spec.Bytes()-1)); !errors.Is(err, ErrArgument) {
			t.Errorf("%v: short destination: %v", spec, err)
		}
	}
	for _, s := range []string{"6x6x3 u8", "6x6x1 u8", "6x6x3 u16", "6x6x1 u16"} {
		if !specs[s] {
			t.Errorf("no spec %s in %v", s, specs)
		}
	}
	for _, o := range []imaging.Options{{Channels: 2}, {DType: dtype.F32}} {
		_, err := OpenImageFolder(t.Context(), dir, ImageOptions{Decode: o})
		wantError(t, fmt.Sprint(o), err, ErrArgument, "they are 1 or 3 of u8 or u16")
		_, err = NewImages(nil, ImageOptions{Decode: o})
		wantError(t, fmt.Sprint(o), err, ErrArgument, "they are 1 or 3 of u8 or u16")
	}
}

func TestImageFolderReadErrors(t *testing.T) {
	good := plain(t, 200)
	dir := folder(t, map[string][]byte{
		"x/0.png": good,
		"x/1.png": good[:len(good)/2],
		"x/2.jpg": []byte("<html>404 not found</html>"),
		"x/3.jpg": {},
		"x/4.png": good, // will vanish
		"x/5.png": append(bytes.Clone(good), make([]byte, 2000)...),
		"x/6.png": good, // will become a folder
	})
	files, err := OpenFolder(t.Context(), dir, FolderOptions{MaxFileBytes: 1500})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewImages(files, ImageOptions{Transform: imaging.CenterCrop(4)})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{4, 6} {
		if err := os.Remove(d.Name(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(d.Name(6), 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := d.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, d.Spec().Bytes())
	for i, c := range []struct {
		err  error
		text string
	}{
		1: {ErrDamaged, "PNG"},
		2: {ErrFormat, `26 bytes that begin with "<html>40"`},
		3: {ErrFormat, "0 bytes"},
		4: {fs.ErrNotExist, ""},
		5: {ErrTooLarge, "the limit is 1500"},
		6: {ErrFormat, "not a regular file"},
	} {
		err := r.Read(t.Context(), Visit{Index: i}, dst)
		if i == 0 {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), d.Name(i)) {
			t.Errorf("sample %d: %v", i, err)
		}
		if err := r.Read(t.Context(), Visit{Index: 0}, dst); err != nil || dst[0] != 200 {
			t.Errorf("after sample %d: %v", i, err)
		}
	}
	for _, i := range []int{-1, 7} {
		if err := r.Read(t.Context(), Visit{Index: i}, dst); !errors.Is(err, ErrArgument) {
			t.Errorf("sample %d: %v", i, err)
		}
	}
	if err := r.Read(t.Context(), Visit{Index: 0}, dst[:5]); !errors.Is(err, ErrArgument) {
		t.Errorf("short destination: %v", err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	if err := r.Read(t.Context(), Visit{Index: 0}, dst); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestTooManyPixels(t *testing.T) {
	dir := folder(t, map[string][]byte{"x.png": nil})
	d, err := OpenImageFolder(t.Context(), dir, ImageOptions{Transform: imaging.CenterCrop(4), Decode: imaging.Options{MaxPixels: 107}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Read(t.Context(), Visit{Index: 0}, make([]byte, 48)); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "12x9") {
		t.Errorf("108 pixels: %v", err)
	}
}

func TestOpen(t *testing.T) {
	dir := folder(t, map[string][]byte{
		"photos/a/x.png": nil,
		"array":          npyFile(1, npyHeaderText("<f4", 3, 2), make([]byte, 24)),
		"words":          []byte("words"),
		"words.csv":      []byte("a,b,label\n1,2,cat\n3,4,dog\n"),
		"nothing":        {},
	})
	photos, err := Open(t.Context(), filepath.Join(dir, "photos"), Options{Image: ImageOptions{Transform: imaging.CenterCrop(16)}})
	if err != nil || photos.Len() != 1 || photos.Spec().String() != "16x16x3 u8" {
		t.Errorf("folder: %v, %v", photos, err)
	}
	array, err := Open(t.Context(), filepath.Join(dir, "array"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := array.(*NPY); !ok || n.Len() != 3 || n.Spec().String() != "2 f32" || n.Close() != nil {
		t.Errorf("array: %v", array)
	}
	for name, text := range map[string]string{
		"words": `5 bytes that begin with "words"`, "nothing": "0 bytes", "words.csv": `:2: format not supported: column 2 "label": "cat" is no number`,
	} {
		if _, err := Open(t.Context(), filepath.Join(dir, name), Options{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "missing"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := Open(t.Context(), "s3://bucket/train-{000..127}.tar", Options{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `s3://…: format not supported: shards are read by http and https, and as files`) {
		t.Errorf("a bucket: %v", err)
	}
}

func TestSpecString(t *testing.T) {
	if s := (Spec{DType: dtype.F32}).String(); s != "scalar f32" {
		t.Error(s)
	}
}

func BenchmarkImageFolder(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "photos")
	if err := samplephotos.Make(b.Context(), dir, 32, nil); err != nil {
		b.Fatal(err)
	}
	d, err := OpenImageFolder(b.Context(), dir, ImageOptions{})
	if err != nil {
		b.Fatal(err)
	}
	r, err := d.NewReader()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	dst := make([]byte, d.Spec().Bytes())
	var t Timing
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Read(b.Context(), Visit{Index: n % d.Len(), Timing: &t}, dst); err != nil {
			b.Fatal(err)
		}
		n++
	}
	for stage, v := range map[string]time.Duration{"read-ns": t.Read, "decode-ns": t.Decode, "resize-ns": t.Resize} {
		b.ReportMetric(float64(v.Nanoseconds())/float64(n), stage)
	}
}
