package dataset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func floatBytes(values ...float32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func TestKITTI(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	files, want := map[string][]byte{}, map[string][]byte{}
	for i, points := range []int{3, 0, 1000, 1} {
		name := fmt.Sprintf("%c/%04d.bin", 'a'+i%2, i)
		for range points * 5 {
			files[name] = append(files[name], floatBytes(rng.Float32())...)
		}
		want[name] = files[name]
		if points == 0 {
			files[name] = []byte{}
		}
	}
	files["a/readme.txt"] = []byte("no cloud")
	dir := folder(t, files)
	d, err := OpenPointClouds(t.Context(), dir, PointOptions{Columns: 5})
	if err != nil {
		t.Fatal(err)
	}
	if d.Spec().String() != "<=1000x5 f32" || !slices.Equal(d.Classes(), []string{"a", "b"}) {
		t.Error(d.Spec(), d.Classes())
	}
	if got := listing(t, d, dir); !slices.Equal(got, []string{"a/0000.bin 0", "a/0002.bin 0", "b/0001.bin 1", "b/0003.bin 1"}) {
		t.Error(got)
	}
	samples := readAllRagged(t, d)
	for i, name := range []string{"a/0000.bin", "a/0002.bin", "b/0001.bin", "b/0003.bin"} {
		if !bytes.Equal(samples[i], want[name]) {
			t.Errorf("%s: %d bytes differ", name, len(samples[i]))
		}
	}

	_, err = OpenPointClouds(t.Context(), dir, PointOptions{})
	wantError(t, "columns", err, ErrDamaged, filepath.Join(dir, "a", "0000.bin")+": damaged: 60 bytes are no whole points of 4 float32")
	_, err = OpenPointClouds(t.Context(), dir, PointOptions{Columns: 5, MaxBytes: 19999})
	wantError(t, "limit", err, ErrTooLarge, "0002.bin: ")
	for _, c := range []int{-1, maxPointColumns + 1} {
		_, err = OpenPointClouds(t.Context(), dir, PointOptions{Columns: c})
		wantError(t, "columns", err, ErrArgument, "columns")
	}
	r, _ := d.NewReader()
	defer r.Close()
	if err := os.WriteFile(d.Name(0), make([]byte, 40), 0o644); err != nil {
		t.Fatal(err)
	}
	wantError(t, "changed", r.Read(t.Context(), Visit{}, make([]byte, 60)), ErrDamaged, "0000.bin: damaged: the file changed its size from 60 bytes to 40")
	if err := os.Remove(d.Name(3)); err != nil {
		t.Fatal(err)
	}
	wantError(t, "gone", r.Read(t.Context(), Visit{Index: 3}, make([]byte, 20)), fs.ErrNotExist, "0003.bin")
	if err := r.Read(t.Context(), Visit{Index: 1}, make([]byte, 20000)); err != nil {
		t.Error(err)
	}
}

func TestPointCloudsErrors(t *testing.T) {
	_, err := OpenPointClouds(t.Context(), folder(t, map[string][]byte{"a.png": nil}), PointOptions{})
	wantError(t, "none", err, ErrEmpty, "none of 1 files ends in .bin, .pcd")
	_, err = OpenPointClouds(t.Context(), folder(t, map[string][]byte{"a.bin": {}}), PointOptions{})
	wantError(t, "no points", err, ErrEmpty, "no points in 1 files")
	_, err = OpenPointClouds(t.Context(), filepath.Join(t.TempDir(), "none"), PointOptions{})
	wantError(t, "missing", err, fs.ErrNotExist, "none")
	mixed := map[string][]byte{"a.bin": make([]byte, 16), "b.pcd": pcdFile("ascii", "x y z", "4 4 4", "F F F", "1 1 1", 1, []byte("1 2 3\n"))}
	_, err = OpenPointClouds(t.Context(), folder(t, mixed), PointOptions{})
	wantError(t, "columns", err, ErrFormat, "b.pcd: ")
	wantError(t, "columns", err, ErrFormat, "points of 3 columns, those of ")
	d, err := OpenPointClouds(t.Context(), folder(t, mixed), PointOptions{Columns: 4, Fields: []string{"x", "y", "z", "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := readAllRagged(t, d); !bytes.Equal(got[1], floatBytes(1, 2, 3, 1)) {
		t.Error(got)
	}
	many := map[string][]byte{}
	for i := range 200 {
		many[fmt.Sprintf("%03d.bin", i)] = make([]byte, 16*(1+i%3)+i/77)
	}
	for range 5 { // whichever goroutine is first, the first bad file is named
		_, err = OpenPointClouds(t.Context(), folder(t, many), PointOptions{})
		wantError(t, "first", err, ErrDamaged, "077.bin: ")
	}
}
