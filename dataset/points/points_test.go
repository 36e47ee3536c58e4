package points

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestKITTI(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	files, want := map[string][]byte{}, map[string][]byte{}
	for i, points := range []int{3, 0, 1000, 1} {
		name := fmt.Sprintf("%c/%04d.bin", 'a'+i%2, i)
		for range points * 5 {
			files[name] = append(files[name], datatest.Floats(rng.Float32())...)
		}
		want[name] = files[name]
		if points == 0 {
			files[name] = []byte{}
		}
	}
	files["a/readme.txt"] = []byte("no cloud")
	dir := datatest.Folder(t, files)
	d, err := Open(t.Context(), dir, Options{Columns: 5})
	if err != nil {
		t.Fatal(err)
	}
	if d.Spec().String() != "<=1000x5 f32" || !slices.Equal(d.Classes(), []string{"a", "b"}) {
		t.Error(d.Spec(), d.Classes())
	}
	if got := datatest.Listing(t, d, dir); !slices.Equal(got, []string{"a/0000.bin 0", "a/0002.bin 0", "b/0001.bin 1", "b/0003.bin 1"}) {
		t.Error(got)
	}
	samples := datatest.Samples(t, d)
	for i, name := range []string{"a/0000.bin", "a/0002.bin", "b/0001.bin", "b/0003.bin"} {
		if !bytes.Equal(samples[i], want[name]) {
			t.Errorf("%s: %d bytes differ", name, len(samples[i]))
		}
	}

	_, err = Open(t.Context(), dir, Options{Columns: 7})
	testkit.WantError(t, "columns", err, dataset.ErrDamaged, filepath.Join(dir, "a", "0000.bin")+": damaged: 60 bytes are not a whole number of points of 7 float32")
	_, err = Open(t.Context(), dir, Options{Columns: 5, MaxBytes: 19})
	testkit.WantError(t, "limit", err, dataset.ErrTooLarge, "0000.bin: ")
	for _, c := range []int{-1, maxColumns + 1} {
		_, err = Open(t.Context(), dir, Options{Columns: c})
		testkit.WantError(t, "columns", err, dataset.ErrArgument, "columns")
	}
	r, _ := d.NewReader()
	defer r.Close()
	if err := os.WriteFile(d.Name(0), make([]byte, 40), 0o644); err != nil {
		t.Fatal(err)
	}
	testkit.WantError(t, "changed", r.Read(t.Context(), dataset.Visit{}, make([]byte, 60)), dataset.ErrDamaged, "0000.bin: damaged: the file changed its size from 60 bytes to 40")
	if err := os.Remove(d.Name(3)); err != nil {
		t.Fatal(err)
	}
	testkit.WantError(t, "gone", r.Read(t.Context(), dataset.Visit{Index: 3}, make([]byte, 20)), fs.ErrNotExist, "0003.bin")
	if err := r.Read(t.Context(), dataset.Visit{Index: 1}, make([]byte, 20000)); err != nil {
		t.Error(err)
	}
}

func TestPointCloudsErrors(t *testing.T) {
	_, err := Open(t.Context(), datatest.Folder(t, map[string][]byte{"a.png": nil}), Options{})
	testkit.WantError(t, "none", err, dataset.ErrEmpty, "none of 1 files ends in .bin, .pcd")
	_, err = Open(t.Context(), datatest.Folder(t, map[string][]byte{"a.bin": {}}), Options{})
	testkit.WantError(t, "no points", err, dataset.ErrEmpty, "no points in 1 files")
	_, err = Open(t.Context(), filepath.Join(t.TempDir(), "none"), Options{})
	testkit.WantError(t, "missing", err, fs.ErrNotExist, "none")
	mixed := map[string][]byte{"a.bin": make([]byte, 16), "b.pcd": pcdFile("ascii", "x y z", "4 4 4", "F F F", "1 1 1", 1, []byte("1 2 3\n"))}
	_, err = Open(t.Context(), datatest.Folder(t, mixed), Options{})
	testkit.WantError(t, "columns", err, dataset.ErrFormat, "b.pcd: ")
	testkit.WantError(t, "columns", err, dataset.ErrFormat, "points of 3 columns, those of ")
	d, err := Open(t.Context(), datatest.Folder(t, mixed), Options{Columns: 4, Fields: []string{"x", "y", "z", "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := datatest.Samples(t, d); !bytes.Equal(got[1], datatest.Floats(1, 2, 3, 1)) {
		t.Error(got)
	}
	many := map[string][]byte{}
	for i := range 200 {
		many[fmt.Sprintf("%03d.bin", i)] = make([]byte, 16*(1+i%3)+1+i/77)
	}
	for range 5 { // whichever goroutine is first, the first bad file is named
		_, err = Open(t.Context(), datatest.Folder(t, many), Options{})
		testkit.WantError(t, "first", err, dataset.ErrDamaged, "000.bin: ")
	}
}

// TestBadCloud: a bad file is an error of its sample, and the others are read.
func TestBadCloud(t *testing.T) {
	dir := datatest.Folder(t, map[string][]byte{"a.bin": make([]byte, 32), "b.bin": make([]byte, 31), "d.bin": make([]byte, 16), "e.pcd": []byte("?"), "f.bin": make([]byte, 48)})
	datatest.Link(t, "nowhere", filepath.Join(dir, "c.bin"))
	os.Remove(filepath.Join(dir, "e.pcd"))
	d, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w := dataset.Warnings(d); len(w) != 1 || !strings.Contains(w[0], "2 of 5 files cannot be read; the first: "+d.Name(1)) {
		t.Errorf("warnings %q", w)
	}
	r, err := d.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i, kind := range []error{nil, dataset.ErrDamaged, fs.ErrNotExist, nil, nil} {
		err := r.Read(t.Context(), dataset.Visit{Index: i}, make([]byte, dataset.SampleBytes(d, i)))
		if !errors.Is(err, kind) || err != nil && !strings.Contains(err.Error(), d.Name(i)) {
			t.Errorf("%s: %v, want %v", d.Name(i), err, kind)
		}
	}
}

// TestMostlyBad: one good file is enough, however many others are bad.
func TestMostlyBad(t *testing.T) {
	d, err := Open(t.Context(), datatest.Folder(t, map[string][]byte{
		"a.bin": make([]byte, 31), "b.bin": make([]byte, 33), "c.bin": make([]byte, 48), "d.bin": make([]byte, 15),
	}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w := dataset.Warnings(d); len(w) != 1 || !strings.Contains(w[0], "3 of 4 files cannot be read; the first: "+d.Name(0)) {
		t.Errorf("warnings %q", w)
	}
	if n := dataset.Length(d, 2); n != 3 {
		t.Errorf("the good file has %d points", n)
	}
}

// TestColumns: where nobody says how many numbers a point has, names and sizes do,
// and what they leave open is said.
func TestColumns(t *testing.T) {
	const several = "the size of every .bin file fits points of 4 and of 5 numbers; they are read as 4 (Columns, --columns)"
	for _, c := range []struct {
		name    string
		sizes   map[string]int
		columns int
		want    int
		warning string
	}{
		{"KITTI", map[string]int{"a.bin": 16, "b.bin": 160}, 0, 4, ""},
		{"either", map[string]int{"a.bin": 80}, 0, 4, several},
		{"either, and said", map[string]int{"a.bin": 80}, 5, 5, ""},
		{"nuScenes", map[string]int{"a.pcd.bin": 20, "b.pcd.bin": 80}, 0, 5, ""},
		{"nuScenes by chance", map[string]int{"a.pcd.bin": 80}, 0, 5, ""},
		{"nothing", map[string]int{"a.bin": 80, "b.bin": 0}, 0, 4, several},
	} {
		files := map[string][]byte{}
		for name, size := range c.sizes {
			files[name] = make([]byte, size)
		}
		d, err := Open(t.Context(), datatest.Folder(t, files), Options{Columns: c.columns})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := d.Spec().Shape[1]; got != c.want {
			t.Errorf("%s: %d columns, want %d", c.name, got, c.want)
		}
		if got := strings.Join(dataset.Warnings(d), "|"); got != c.warning {
			t.Errorf("%s: warning %q, want %q", c.name, got, c.warning)
		}
	}
	_, err := Open(t.Context(), datatest.Folder(t, map[string][]byte{"a.bin": make([]byte, 20), "b.bin": make([]byte, 100)}), Options{})
	testkit.WantError(t, "five", err, dataset.ErrDamaged, "a.bin: damaged: 20 bytes are not a whole number of points of 4 float32; the size of every .bin file fits points of 5 numbers (Columns, --columns)")
}
