package npy

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

type npzMember struct {
	name   string
	method uint16
	data   []byte
}

// npzFile makes an archive.
func npzFile(t testing.TB, members ...npzMember) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, m := range members {
		f, err := w.CreateHeader(&zip.FileHeader{Name: m.name, Method: m.method})
		if err == nil {
			_, err = f.Write(m.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func openNPZ(t testing.TB, file []byte, opts NPZOptions) (*NPZ, error) {
	t.Helper()
	d, err := OpenNPZ(t.Context(), datatest.WriteFile(t, filepath.Join(t.TempDir(), "a.npz"), file), opts)
	if err == nil {
		t.Cleanup(func() { d.Close() })
	}
	return d, err
}

// The files in testdata were made by Python's zipfile in the way that
// numpy.savez and numpy.savez_compressed use it (force_zip64, so that members
// have zip64 sizes), of x = [[1, 2], [3, 4], [5, 6]] float32 and y = [7, 8, 9]
// int64.
func TestNPZ(t *testing.T) {
	for _, name := range []string{"savez.npz", "savez_compressed.npz"} {
		path := filepath.Join("testdata", "npz", name)
		d, err := OpenNPZ(t.Context(), path, NPZOptions{Label: "y"})
		if err != nil {
			t.Fatal(err)
		}
		samples, labels := datatest.ReadAll(t, d)
		if !bytes.Equal(bytes.Join(samples, nil), datatest.Floats(1, 2, 3, 4, 5, 6)) || !slices.Equal(labels, []int32{7, 8, 9}) {
			t.Errorf("%s: %v, %v", name, samples, labels)
		}
		if d.Spec().String() != "2 f32" || d.Name(1) != path+":x[1]" || !slices.Equal(d.Arrays(), []string{"x", "y"}) {
			t.Error(d.Spec(), d.Name(1), d.Arrays())
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	d, err := OpenNPZ(t.Context(), filepath.Join("testdata", "npz", "savez.npz"), NPZOptions{})
	if err != nil || d.Label(0) != -1 {
		t.Fatal(err)
	}
	r, _ := d.NewReader()
	d.Close()
	testkit.WantError(t, "read in place", r.Read(t.Context(), dataset.Visit{}, make([]byte, 8)), fs.ErrClosed, "x[0]")
}

func TestNPZNames(t *testing.T) {
	a := datatest.NPY(1, datatest.NPYHeader("|u1", 2), []byte("ab"))
	for _, c := range []struct {
		members string
		label   string
		want    string
	}{
		{"train", "", "train"},
		{"train y", "y", "train"},
		{"y x z", "", "x"},
		{"z arr_0 data", "", "data"},
		{"x_train y_train", "", ""},
		{"x y", "x", "y"},
		{"arr_0 arr_1", "arr_1", "arr_0"},
	} {
		members := []npzMember{{"readme.txt", zip.Store, []byte("no array")}}
		for name := range strings.FieldsSeq(c.members) {
			members = append(members, npzMember{name + ".npy", zip.Store, a})
		}
		d, err := openNPZ(t, npzFile(t, members...), NPZOptions{Label: c.label})
		if c.want == "" {
			testkit.WantError(t, c.members, err, dataset.ErrArgument, `which array holds the samples? There are "x_train", "y_train" (Array, --field)`)
		} else if err != nil || !strings.HasSuffix(d.Name(0), ":"+c.want+"[0]") {
			t.Errorf("%s: %v, %v", c.members, d, err)
		}
	}
}

func TestNPZErrors(t *testing.T) {
	u8 := datatest.NPY(1, datatest.NPYHeader("|u1", 4), []byte("abcd"))
	zeros := datatest.NPY(1, datatest.NPYHeader("|u1", 100000), make([]byte, 100000))
	stored := npzFile(t, npzMember{"x.npy", zip.Store, u8}, npzMember{"y.npy", zip.Store, u8[:len(u8)-1]})
	deflated := npzFile(t, npzMember{"x.npy", zip.Deflate, zeros})
	flip := func(file []byte, at int) []byte {
		file = bytes.Clone(file)
		file[at] ^= 0x40
		return file
	}
	// directory changes a field of the first entry of the directory.
	directory := func(file []byte, field int, value uint32) []byte {
		file = bytes.Clone(file)
		at := bytes.Index(file, []byte("PK\x01\x02"))
		binary.LittleEndian.PutUint32(file[at+field:], value)
		return file
	}
	// claims is an archive of 100000 bytes whose header says another number.
	claims := func(n int) []byte {
		x := datatest.NPY(1, datatest.NPYHeader("|u1", n), make([]byte, 100000))
		return npzFile(t, npzMember{"x.npy", zip.Deflate, x})
	}
	const packedSize, fullSize, headerAt = 20, 24, 42
	var crowd []npzMember
	for i := range 40 {
		crowd = append(crowd, npzMember{fmt.Sprint(i, strings.Repeat("x", 60000)), zip.Store, nil})
	}
	for range 9 { // 16 MiB are more than 7 of these
		crowd = append(crowd, crowd[:40]...)
	}
	for _, c := range []struct {
		name string
		file []byte
		opts NPZOptions
		err  error
		text string
	}{
		{"empty", nil, NPZOptions{}, dataset.ErrFormat, "not a zip archive"},
		{"text", []byte("id,label\n1,2\n"), NPZOptions{}, dataset.ErrFormat, "not a zip archive"},
		{"cut short", stored[:len(stored)-30], NPZOptions{}, dataset.ErrFormat, "cut short"},
		{"no arrays", npzFile(t, npzMember{"data.pkl", zip.Store, nil}), NPZOptions{}, dataset.ErrFormat, "a zip archive of 1 file, none of them an array (.npy); of a PyTorch file, save"},
		{"photos", npzFile(t, npzMember{"a/1.JPG", zip.Store, nil}), NPZOptions{}, dataset.ErrFormat, "unpack it: photos"},
		{"two of one name", npzFile(t, npzMember{"x.npy", zip.Store, u8}, npzMember{"x.npy", zip.Store, u8}), NPZOptions{}, dataset.ErrDamaged, `two arrays "x"`},
		{"no such array", stored, NPZOptions{Array: "z"}, dataset.ErrArgument, `no array "z"; there are "x", "y"`},
		{"no such label", stored, NPZOptions{Label: "z"}, dataset.ErrArgument, `no array "z"`},
		{"no array", npzFile(t, npzMember{"x.npy", zip.Store, []byte("hello")}), NPZOptions{}, dataset.ErrFormat, `array "x": format not supported: not a NumPy file`},
		{"array cut short", stored, NPZOptions{Array: "y"}, dataset.ErrDamaged, "promises 132"},
		{"label cut short", stored, NPZOptions{Label: "y"}, dataset.ErrDamaged, `array "y"`},
		{"limit", deflated, NPZOptions{MaxBytes: 100127}, dataset.ErrTooLarge, "decompresses to 100128 bytes, the limit is 100127"},
		{"damaged data", flip(deflated, 45), NPZOptions{}, dataset.ErrDamaged, "zip archive"},
		{"checksum", directory(deflated, 16, 1), NPZOptions{}, dataset.ErrDamaged, "checksum"},
		{"bomb", directory(deflated, fullSize, 3<<30), NPZOptions{}, dataset.ErrDamaged, "cannot decompress to 3221225472"},
		{"lying size, less", directory(deflated, fullSize, 100127), NPZOptions{}, dataset.ErrDamaged, "has 100127 bytes, its header (100000 u8) promises 100128"},
		{"lying size and header, less", directory(claims(99999), fullSize, 100127), NPZOptions{}, dataset.ErrDamaged, "after 100127 of 100127 bytes"},
		{"lying size and header, more", directory(claims(100001), fullSize, 100129), NPZOptions{}, dataset.ErrDamaged, "of 100129 bytes: unexpected EOF"},
		{"beyond the file", directory(deflated, packedSize, 1<<20), NPZOptions{}, dataset.ErrDamaged, "1048576 bytes from"},
		{"lying size of a stored member", directory(stored, fullSize, 7), NPZOptions{}, dataset.ErrDamaged, "an uncompressed member of 7 bytes"},
		{"header beyond the file", directory(stored, headerAt, 1<<30), NPZOptions{}, dataset.ErrDamaged, "zip archive"},
		{"method", npzFileOf(t, u8, 12), NPZOptions{}, dataset.ErrFormat, "compression method 12"},
		{"encrypted", directory(stored, 6, 1<<16|20), NPZOptions{}, dataset.ErrFormat, "encrypted"},
		{"huge directory", npzFile(t, crowd...), NPZOptions{}, dataset.ErrTooLarge, "a zip directory of more than 16777216 bytes"},
	} {
		_, err := openNPZ(t, c.file, c.opts)
		testkit.WantError(t, c.name, err, c.err, c.text)
		testkit.WantError(t, c.name, err, c.err, "a.npz: ")
	}
	label := func(descr string, data []byte, shape ...int) error {
		y := datatest.NPY(1, datatest.NPYHeader(descr, shape...), data)
		_, err := openNPZ(t, npzFile(t, npzMember{"x.npy", zip.Store, u8}, npzMember{"y.npy", zip.Deflate, y}), NPZOptions{Label: "y"})
		return err
	}
	if err := label("<i2", make([]byte, 8), 4, 1); err != nil {
		t.Error(err)
	}
	testkit.WantError(t, "count", label("|u1", make([]byte, 5), 5), dataset.ErrArgument, `array "y": bad argument: labels of shape [5] for 4 samples`)
	testkit.WantError(t, "one-hot", label("|u1", make([]byte, 8), 4, 2), dataset.ErrArgument, "labels of shape [4 2]")
	testkit.WantError(t, "floats", label("<f4", make([]byte, 16), 4), dataset.ErrFormat, "labels of type f32")
	_, err := OpenNPZ(t.Context(), filepath.Join(t.TempDir(), "none.npz"), NPZOptions{})
	testkit.WantError(t, "missing", err, fs.ErrNotExist, "none.npz")
}

// npzFileOf makes an archive of x, whose method is said to be another one.
func npzFileOf(t testing.TB, x []byte, method uint16) []byte {
	file := npzFile(t, npzMember{"x.npy", zip.Store, x})
	binary.LittleEndian.PutUint16(file[bytes.Index(file, []byte("PK\x01\x02"))+10:], method)
	return file
}

// TestNPZHeaderFirst: an array that is not as large as the directory says is
// refused before there is memory for it.
func TestNPZHeaderFirst(t *testing.T) {
	testkit.OnlyComputes(t)
	const size = 256 << 20
	zeros := make([]byte, size)
	copy(zeros, datatest.NPY(1, datatest.NPYHeader("<f4", 5<<30/4), nil))
	packed := npzFile(t, npzMember{"x.npy", zip.Deflate, zeros})
	zeros = nil
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := openNPZ(t, packed, NPZOptions{})
	runtime.ReadMemStats(&after)
	testkit.WantError(t, "a header of 5 GiB", err, dataset.ErrDamaged, "the file has 268435456 bytes, its header", "promises 5368709248")
	if got := after.TotalAlloc - before.TotalAlloc; got > 32<<20 {
		t.Errorf("%d bytes for an array that is refused", got)
	}
}

// FuzzNPZ: whatever the archive is, opening it ends with an error of a known
// kind or with samples that can be read.
func FuzzNPZ(f *testing.F) {
	for _, name := range []string{"savez.npz", "savez_compressed.npz"} {
		file, err := os.ReadFile(filepath.Join("testdata", "npz", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > 4<<10 {
			return // what is interesting about an archive is small
		}
		d, err := newNPZ(t.Context(), "a.npz", bytes.NewReader(file), int64(len(file)), NPZOptions{MaxBytes: 64 << 10})
		if err != nil {
			if !errors.Is(err, dataset.ErrFormat) && !errors.Is(err, dataset.ErrDamaged) && !errors.Is(err, dataset.ErrEmpty) && !errors.Is(err, dataset.ErrTooLarge) && !errors.Is(err, dataset.ErrArgument) {
				t.Errorf("unknown kind of error: %v", err)
			}
			return
		}
		if d.Len()*d.Spec().Bytes() > 64<<10 {
			t.Fatalf("%d samples of %v in %d bytes", d.Len(), d.Spec(), len(file))
		}
		r, err := d.NewReader()
		if err != nil {
			t.Fatal(err)
		}
		sample := make([]byte, d.Spec().Bytes())
		for i := range d.Len() {
			if err := r.Read(t.Context(), dataset.Visit{Index: i}, sample); err != nil {
				t.Fatal(err)
			}
		}
	})
}
