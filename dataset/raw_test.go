package dataset_test

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestRaw(t *testing.T) {
	path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "a.bin"), []byte("headABCDEFGHI"))
	spec := dataset.Spec{Shape: []int{3}, DType: dtype.U8}
	d, err := dataset.OpenRaw(path, spec, dataset.RawOptions{Offset: 4, Labels: []int32{7, 8, 9}})
	if err != nil {
		t.Fatal(err)
	}
	samples, labels := datatest.ReadAll(t, d)
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
		if err := r.Read(t.Context(), dataset.Visit{Index: 0}, dst); err != nil || string(dst) != "ABC" {
			t.Errorf("%s, %v", dst, err)
		}
		testkit.WantError(t, "shrunk", r.Read(t.Context(), dataset.Visit{Index: 1}, dst), dataset.ErrDamaged, "a.bin[1]: damaged: the file has shrunk: 1 of 3 bytes")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	testkit.WantError(t, "closed file", r.Read(t.Context(), dataset.Visit{Index: 0}, dst), fs.ErrClosed, "a.bin[0]")

	path = datatest.WriteFile(t, filepath.Join(t.TempDir(), "b.bin"), make([]byte, 9))
	for _, c := range []struct {
		spec dataset.Spec
		opts dataset.RawOptions
		err  error
		text string
	}{
		{spec, dataset.RawOptions{Offset: 9}, dataset.ErrEmpty, "9 bytes, samples begin at 9"},
		{spec, dataset.RawOptions{Offset: math.MaxInt64}, dataset.ErrEmpty, "9 bytes"},
		{spec, dataset.RawOptions{Offset: -1}, dataset.ErrArgument, "offset -1"},
		{spec, dataset.RawOptions{Offset: 1}, dataset.ErrDamaged, "8 bytes from offset 1 are not a whole number of samples of 3 bytes"},
		{spec, dataset.RawOptions{Labels: []int32{1}}, dataset.ErrArgument, "1 labels for 3"},
		{dataset.Spec{}, dataset.RawOptions{}, dataset.ErrArgument, "type"},
		{dataset.Spec{Shape: []int{3}, DType: dtype.U8, Ragged: true}, dataset.RawOptions{}, dataset.ErrArgument, "want samples of one shape, not <=3 u8"},
	} {
		_, err := dataset.OpenRaw(path, c.spec, c.opts)
		testkit.WantError(t, path, err, c.err, c.text)
		testkit.WantError(t, path, err, c.err, path)
	}
	_, err = dataset.OpenRaw(path+"x", spec, dataset.RawOptions{})
	testkit.WantError(t, "missing", err, fs.ErrNotExist, "b.binx")
	_, err = dataset.OpenRaw(t.TempDir(), spec, dataset.RawOptions{})
	testkit.WantError(t, "folder", err, dataset.ErrFormat, "a folder, not a regular file")
}
