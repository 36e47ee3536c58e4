package dataset

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
)

func TestRaw(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "a.bin"), []byte("headABCDEFGHI"))
	spec := Spec{Shape: []int{3}, DType: dtype.U8}
	d, err := OpenRaw(path, spec, RawOptions{Offset: 4, Labels: []int32{7, 8, 9}})
	if err != nil {
		t.Fatal(err)
	}
	samples, labels := readAll(t, d)
	if got := string(bytes.Join(samples, []byte("|"))); got != "ABC|DEF|GHI" || !slices.Equal(labels, []int32{7, 8, 9}) {
		t.Errorf("%s, %v", got, labels)
	}
	r, _ := d.NewReader()
	defer r.Close()
	dst := make([]byte, 3)
	if runtime.GOOS != "windows" { // which does not cut a file that is open
		if err := os.Truncate(path, 8); err != nil {
			t.Fatal(err)
		}
		if err := r.Read(t.Context(), Visit{Index: 0}, dst); err != nil || string(dst) != "ABC" {
			t.Errorf("%s, %v", dst, err)
		}
		wantError(t, "shrunk", r.Read(t.Context(), Visit{Index: 1}, dst), ErrDamaged, "a.bin[1]: damaged: the file has shrunk: 1 of 3 bytes")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	wantError(t, "closed file", r.Read(t.Context(), Visit{Index: 0}, dst), fs.ErrClosed, "a.bin[0]")

	path = writeFile(t, filepath.Join(t.TempDir(), "b.bin"), make([]byte, 9))
	for _, c := range []struct {
		spec Spec
		opts RawOptions
		err  error
		text string
	}{
		{spec, RawOptions{Offset: 9}, ErrEmpty, "9 bytes, samples begin at 9"},
		{spec, RawOptions{Offset: math.MaxInt64}, ErrEmpty, "9 bytes"},
		{spec, RawOptions{Offset: -1}, ErrArgument, "offset -1"},
		{spec, RawOptions{Offset: 1}, ErrDamaged, "8 bytes from offset 1 are no whole samples of 3"},
		{spec, RawOptions{Labels: []int32{1}}, ErrArgument, "1 labels for 3"},
		{Spec{}, RawOptions{}, ErrArgument, "type"},
		{Spec{Shape: []int{3}, DType: dtype.U8, Ragged: true}, RawOptions{}, ErrArgument, "want samples of one shape, not <=3 u8"},
	} {
		_, err := OpenRaw(path, c.spec, c.opts)
		wantError(t, path, err, c.err, c.text)
		wantError(t, path, err, c.err, path)
	}
	_, err = OpenRaw(path+"x", spec, RawOptions{})
	wantError(t, "missing", err, fs.ErrNotExist, "b.binx")
	_, err = OpenRaw(t.TempDir(), spec, RawOptions{})
	wantError(t, "folder", err, ErrFormat, "not a regular file")
}
