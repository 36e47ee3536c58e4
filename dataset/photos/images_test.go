package photos

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

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

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
			dir := datatest.Folder(t, c.files)
			d, err := Open(t.Context(), dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Classes(); !slices.Equal(got, c.classes) {
				t.Errorf("classes %q, want %q", got, c.classes)
			}
			if got := datatest.Listing(t, d, dir); !slices.Equal(got, c.want) {
				t.Errorf("files %q, want %q", got, c.want)
			}
		})
	}
}

func TestImageFolderLinks(t *testing.T) {
	dir := datatest.Folder(t, map[string][]byte{"a/x.png": nil})
	elsewhere := datatest.Folder(t, map[string][]byte{"y.png": nil, "sub/z.png": nil})
	datatest.Link(t, filepath.Join(elsewhere, "y.png"), filepath.Join(dir, "a", "linked.png"))
	datatest.Link(t, elsewhere, filepath.Join(dir, "b")) // a class
	datatest.Link(t, elsewhere, filepath.Join(dir, "a", "deeper"))
	datatest.Link(t, dir, filepath.Join(dir, "a", "loop"))
	datatest.Link(t, dir, filepath.Join(dir, "loop"))
	datatest.Link(t, filepath.Dir(dir), filepath.Join(dir, "parent.png"))
	through := filepath.Join(t.TempDir(), "link")
	datatest.Link(t, dir, through)
	want := []string{"a/linked.png 0", "a/x.png 0", "b/sub/z.png 1", "b/y.png 1"}
	for _, path := range []string{dir, through} {
		d, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := datatest.Listing(t, d, path); !slices.Equal(got, want) {
			t.Errorf("files %q, want %q", got, want)
		}
	}
	// A dangling link is a sample that cannot be read.
	dangling := filepath.Join(dir, "a", "gone.jpg")
	datatest.Link(t, filepath.Join(dir, "nowhere"), dangling)
	d, err := Open(t.Context(), dir, Options{})
	if err != nil || d.Len() != 5 || d.Name(0) != dangling {
		t.Fatalf("dangling link: %v", err)
	}
	r, err := d.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dst := make([]byte, d.Spec().Bytes())
	if err := r.Read(t.Context(), dataset.Visit{}, dst); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dangling) {
		t.Errorf("dangling link: %v", err)
	}
	if err := r.Read(t.Context(), dataset.Visit{Index: 2}, dst); err != nil {
		t.Errorf("beside a dangling link: %v", err)
	}
}

func TestImageFolderOpenErrors(t *testing.T) {
	file := datatest.WriteFile(t, filepath.Join(t.TempDir(), "x.jpg"), nil)
	words := datatest.Folder(t, map[string][]byte{"a/1.txt": {}, "a/2.gif": {}, "b.md": {}})
	empty := t.TempDir()
	missing := filepath.Join(empty, "nothing")
	tests := []struct {
		name, path string
		opts       Options
		err        error
		text       string
	}{
		{"missing", missing, Options{}, fs.ErrNotExist, missing},
		{"file", file, Options{}, dataset.ErrFormat, "not a folder"},
		{"empty", empty, Options{}, dataset.ErrEmpty, "no files; looked for .jpg, .jpeg, .png, .webp"},
		{"no images", words, Options{}, dataset.ErrEmpty, "none of 3 files ends in .jpg, .jpeg, .png, .webp"},
		{"size", words, Options{Transform: imaging.CenterCrop(-1)}, dataset.ErrArgument, "-1"},
	}
	for _, c := range tests {
		_, err := Open(t.Context(), c.path, c.opts)
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	t.Run("unreadable", func(t *testing.T) {
		dir := datatest.Folder(t, map[string][]byte{"a/x.png": nil, "b/x.png": nil})
		locked := filepath.Join(dir, "b")
		if err := os.Chmod(locked, 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(locked, 0o755)
		if _, err := os.ReadDir(locked); err == nil {
			t.Skip("this user may read everything")
		}
		if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), locked) {
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
		files[fmt.Sprintf("gray/%02d.png", i)] = datatest.PNG(t, byte(i))
	}
	dir := datatest.Folder(t, files)
	for _, transform := range []imaging.Transform{
		imaging.CenterCrop(32), imaging.Stretch(32, 32), imaging.RandomResizedCrop(32).WithFlip(0.5),
	} {
		d, err := Open(t.Context(), dir, Options{Transform: transform})
		if err != nil {
			t.Fatal(err)
		}
		if s := d.Spec(); s.DType != dtype.U8 || !slices.Equal(s.Shape, []int{32, 32, 3}) || s.Bytes() != 3072 {
			t.Fatalf("spec %v", s)
		}
		datatest.Together(t, d, 3, func(w int, r dataset.Reader) {
			dst := make([]byte, d.Spec().Bytes())
			for i := w; i < 20; i += 3 {
				if err := r.Read(t.Context(), dataset.Visit{Index: i}, dst); err != nil {
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
		var timing dataset.Timing
		if err := r.Read(t.Context(), dataset.Visit{Index: 20, Key: 77, Timing: &timing}, got); err != nil {
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
	dir := datatest.Folder(t, map[string][]byte{"a/0.png": deep.Bytes(), "b/1.png": datatest.PNG(t, 200)})
	transform := imaging.RandomResizedCrop(6).WithFlip(0.5)
	specs := map[string]bool{}
	for _, o := range []imaging.Options{{}, {Channels: 1}, {DType: dtype.U16}, {DType: dtype.U16, Channels: 1}} {
		d, err := Open(t.Context(), dir, Options{Transform: transform, Decode: o})
		if err != nil {
			t.Fatal(err)
		}
		spec := d.Spec()
		specs[spec.String()] = true
		both, err := dataset.NewConcat(d, d)
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
		for i, file := range [][]byte{deep.Bytes(), datatest.PNG(t, 200)} {
			got, want := make([]byte, spec.Bytes()), make([]byte, decoder.Bytes(transform))
			if err := decoder.DecodeTransformed(context.Background(), want, file, transform, 5); err != nil {
				t.Fatal(err)
			}
			if err := r.Read(t.Context(), dataset.Visit{Index: 2 + i, Key: 5}, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v: sample %d is % x, want % x: %v", spec, i, got, want, err)
			}
		}
		if err := r.Read(t.Context(), dataset.Visit{}, make([]byte, spec.Bytes()-1)); !errors.Is(err, dataset.ErrArgument) {
			t.Errorf("%v: short destination: %v", spec, err)
		}
	}
	for _, s := range []string{"6x6x3 u8", "6x6x1 u8", "6x6x3 u16", "6x6x1 u16"} {
		if !specs[s] {
			t.Errorf("no spec %s in %v", s, specs)
		}
	}
	for _, o := range []imaging.Options{{Channels: 2}, {DType: dtype.F32}} {
		_, err := Open(t.Context(), dir, Options{Decode: o})
		testkit.WantError(t, fmt.Sprint(o), err, dataset.ErrArgument, "they are 1 or 3 of u8 or u16")
		_, err = New(nil, Options{Decode: o})
		testkit.WantError(t, fmt.Sprint(o), err, dataset.ErrArgument, "they are 1 or 3 of u8 or u16")
	}
}

func TestImageFolderReadErrors(t *testing.T) {
	good := datatest.PNG(t, 200)
	dir := datatest.Folder(t, map[string][]byte{
		"x/0.png": good,
		"x/1.png": good[:len(good)/2],
		"x/2.jpg": []byte("<html>404 not found</html>"),
		"x/3.jpg": {},
		"x/4.png": good, // will vanish
		"x/5.png": append(bytes.Clone(good), make([]byte, 2000)...),
		"x/6.png": good, // will become a folder
	})
	files, err := dataset.OpenFolder(t.Context(), dir, dataset.FolderOptions{MaxFileBytes: 1500, Extensions: Extensions})
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(files, Options{Transform: imaging.CenterCrop(4)})
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
		1: {dataset.ErrDamaged, "PNG"},
		2: {dataset.ErrFormat, `26 bytes that begin with "<html>40"`},
		3: {dataset.ErrFormat, "0 bytes"},
		4: {fs.ErrNotExist, ""},
		5: {dataset.ErrTooLarge, "the limit is 1500"},
		6: {dataset.ErrFormat, "not a regular file"},
	} {
		err := r.Read(t.Context(), dataset.Visit{Index: i}, dst)
		if i == 0 {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), d.Name(i)) {
			t.Errorf("sample %d: %v", i, err)
		}
		if err := r.Read(t.Context(), dataset.Visit{Index: 0}, dst); err != nil || dst[0] != 200 {
			t.Errorf("after sample %d: %v", i, err)
		}
	}
	for _, i := range []int{-1, 7} {
		if err := r.Read(t.Context(), dataset.Visit{Index: i}, dst); !errors.Is(err, dataset.ErrArgument) {
			t.Errorf("sample %d: %v", i, err)
		}
	}
	if err := r.Read(t.Context(), dataset.Visit{Index: 0}, dst[:5]); !errors.Is(err, dataset.ErrArgument) {
		t.Errorf("short destination: %v", err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	if err := r.Read(t.Context(), dataset.Visit{Index: 0}, dst); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestTooManyPixels(t *testing.T) {
	dir := datatest.Folder(t, map[string][]byte{"x.png": nil})
	d, err := Open(t.Context(), dir, Options{Transform: imaging.CenterCrop(4), Decode: imaging.Options{MaxPixels: 107}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Read(t.Context(), dataset.Visit{Index: 0}, make([]byte, 48)); !errors.Is(err, dataset.ErrTooLarge) || !strings.Contains(err.Error(), "12x9") {
		t.Errorf("108 pixels: %v", err)
	}
}

func BenchmarkImageFolder(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "photos")
	if err := samplephotos.Make(b.Context(), dir, 32, nil); err != nil {
		b.Fatal(err)
	}
	d, err := Open(b.Context(), dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	r, err := d.NewReader()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	dst := make([]byte, d.Spec().Bytes())
	var t dataset.Timing
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Read(b.Context(), dataset.Visit{Index: n % d.Len(), Timing: &t}, dst); err != nil {
			b.Fatal(err)
		}
		n++
	}
	for stage, v := range map[string]time.Duration{"read-ns": t.Read, "decode-ns": t.Decode, "resize-ns": t.Resize} {
		b.ReportMetric(float64(v.Nanoseconds())/float64(n), stage)
	}
}
