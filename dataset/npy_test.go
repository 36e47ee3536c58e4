package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
)

// npyFile makes a .npy file as numpy.save does: the header padded to 64 bytes.
func npyFile(version byte, header string, data []byte) []byte {
	lengthBytes := 2
	if version >= 2 {
		lengthBytes = 4
	}
	for (8+lengthBytes+len(header)+1)%64 != 0 {
		header += " "
	}
	header += "\n"
	file := append([]byte("\x93NUMPY"), version, 0)
	if version >= 2 {
		file = binary.LittleEndian.AppendUint32(file, uint32(len(header)))
	} else {
		file = binary.LittleEndian.AppendUint16(file, uint16(len(header)))
	}
	return append(append(file, header...), data...)
}

func npyHeaderText(descr string, shape ...int) string {
	s := strings.Trim(fmt.Sprint(shape), "[]")
	s = strings.ReplaceAll(s, " ", ", ")
	if len(shape) == 1 {
		s += ","
	}
	return fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, s)
}

func writeFile(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNPY(t *testing.T) {
	tests := []struct {
		descr string
		want  dtype.DType
	}{
		{"|b1", dtype.U8}, {"|u1", dtype.U8}, {"|i1", dtype.I8}, {"<u2", dtype.U16}, {"<i2", dtype.I16}, {"<i4", dtype.I32},
		{"<i8", dtype.I64}, {"<f2", dtype.F16}, {"<f4", dtype.F32}, {"<f8", dtype.F64}, {">u1", dtype.U8},
	}
	rng := rand.New(rand.NewPCG(1, 1))
	dir := t.TempDir()
	for version := byte(1); version <= 3; version++ {
		for _, c := range tests {
			for _, shape := range [][]int{{5}, {1}, {4, 3}, {2, 3, 5}} {
				data := make([]byte, c.want.Size()*int(elements(shape)))
				for i := range data {
					data[i] = byte(rng.Uint32())
				}
				path := writeFile(t, filepath.Join(dir, "a.npy"), npyFile(version, npyHeaderText(c.descr, shape...), data))
				d, err := OpenNPY(path)
				if err != nil {
					t.Fatalf("%s %v: %v", c.descr, shape, err)
				}
				spec := d.Spec()
				if d.Len() != shape[0] || spec.DType != c.want || !slices.Equal(spec.Shape, shape[1:]) || d.Label(0) != -1 {
					t.Fatalf("%s %v: %d samples of %v", c.descr, shape, d.Len(), spec)
				}
				r, err := d.NewReader()
				if err != nil {
					t.Fatal(err)
				}
				dst := make([]byte, spec.Bytes())
				for _, i := range rng.Perm(d.Len()) {
					if err := r.Read(t.Context(), Visit{Index: i}, dst); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(dst, data[i*len(dst):][:len(dst)]) {
						t.Fatalf("%s %v: sample %d differs", c.descr, shape, i)
					}
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestNPYErrors(t *testing.T) {
	good := npyFile(1, npyHeaderText("<f4", 3, 2), make([]byte, 24))
	huge := npyFile(2, "", nil)
	binary.LittleEndian.PutUint32(huge[8:], math.MaxUint32)
	header := func(text string) []byte { return npyFile(1, text, make([]byte, 24)) }
	structure := "{'descr': [('x', '<f4'), ('y', '<f4')], 'fortran_order': False, 'shape': (3,), }"
	tests := []struct {
		name string
		file []byte
		err  error
		text string
	}{
		{"empty file", nil, ErrFormat, `begins with ""`},
		{"text", []byte("id,label\n1,2\n"), ErrFormat, `begins with "id,lab"`},
		{"magic only", good[:6], ErrDamaged, "ends after 6 bytes"},
		{"half a header", good[:40], ErrDamaged, "118 bytes, the file 30 of them"},
		{"version 4", npyFile(4, npyHeaderText("<f4", 1), nil), ErrFormat, "version 4.0"},
		{"huge header", huge, ErrDamaged, "4294967295 bytes, the limit is 65536"},
		{"cut short", good[:len(good)-1], ErrDamaged, "has 151 bytes, its header (3x2 f32) promises 152"},
		{"too long", append(bytes.Clone(good), 0), ErrDamaged, "has 153 bytes, its header (3x2 f32) promises 152"},
		{"big-endian", header(npyHeaderText(">f4", 3, 2)), ErrFormat, "big-endian"},
		{"Fortran", header("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }"), ErrFormat, "Fortran"},
		{"objects", header(npyHeaderText("|O", 3)), ErrFormat, "Python objects"},
		{"structure", header(structure), ErrFormat, "structures"},
		{"strings", header(npyHeaderText("<U8", 3)), ErrFormat, `type "<U8"`},
		{"complex", header(npyHeaderText("<c8", 3)), ErrFormat, `type "<c8"`},
		{"unsigned", header(npyHeaderText("<u4", 3)), ErrFormat, `type "<u4"`},
		{"no byte order", header(npyHeaderText("|f4", 3)), ErrDamaged, "no byte order"},
		{"scalar", header("{'descr': '<f4', 'fortran_order': False, 'shape': (), }"), ErrFormat, "scalar"},
		{"no samples", header(npyHeaderText("<f4", 0, 2)), ErrEmpty, "[0 2]"},
		{"samples of nothing", header(npyHeaderText("<f4", 3, 0)), ErrEmpty, "[3 0]"},
		{"overflow", header(npyHeaderText("<f4", math.MaxInt, 9)), ErrTooLarge, "shape"},
		{"overflow to zero", header(npyHeaderText("<f8", 1<<30, 1<<30, 16)), ErrTooLarge, "shape"},
		{"beyond int", header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }"), ErrDamaged, "bad shape"},
		{"negative", header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"), ErrDamaged, "bad shape"},
		{"no tuple", header("{'descr': '<f4', 'fortran_order': False, 'shape': (3), }"), ErrDamaged, "tuple"},
		{"key missing", header("{'descr': '<f4', 'shape': (3,)}"), ErrDamaged, "only 2 of the keys"},
		{"key twice", header("{'descr': '<f4', 'descr': '<f4', 'shape': (3,)}"), ErrDamaged, "twice"},
		{"key unknown", header("{'descr': '<f4', 'order': 'C'}"), ErrDamaged, `unknown key "order"`},
		{"no dictionary", header("[1, 2]"), ErrDamaged, `"{" expected`},
		{"more behind", header(npyHeaderText("<f4", 3, 2) + "{}"), ErrDamaged, "after the dictionary"},
		{"open end", header("{'descr': '<f4'"), ErrDamaged, "expected"},
		{"open string", header("{'descr"), ErrDamaged, "string expected"},
	}
	for _, c := range tests {
		path := writeFile(t, filepath.Join(t.TempDir(), "bad.npy"), c.file)
		_, err := OpenNPY(path)
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := OpenNPY(filepath.Join(t.TempDir(), "none.npy")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := OpenNPY(t.TempDir()); !errors.Is(err, ErrFormat) {
		t.Errorf("folder: %v", err)
	}
}

// TestNPYFortranVector: of an array of one long axis both orders are the same.
func TestNPYFortranVector(t *testing.T) {
	for _, shape := range [][]int{{3}, {3, 1}, {1, 3}, {1, 1, 1}} {
		text := strings.Replace(npyHeaderText("<f4", shape...), "False", "True", 1)
		path := writeFile(t, filepath.Join(t.TempDir(), "a.npy"), npyFile(1, text, make([]byte, 4*elements(shape))))
		d, err := OpenNPY(path)
		if err != nil {
			t.Errorf("%v: %v", shape, err)
			continue
		}
		if d.Len() != shape[0] || !slices.Equal(d.Spec().Shape, shape[1:]) {
			t.Errorf("%v: %d samples of %v", shape, d.Len(), d.Spec())
		}
		d.Close()
	}
}

func TestNPYHeaderSpelling(t *testing.T) {
	for _, text := range []string{
		`{"shape":(3,2),"descr":"<f4","fortran_order":False}`,
		"{'shape' : (3L, 2L,) ,\n 'fortran_order' : False , 'descr' : '<f4' , } \n",
	} {
		h, err := parseNPYHeader(text)
		if err != nil || h.dtype != dtype.F32 || !slices.Equal(h.shape, []int{3, 2}) {
			t.Errorf("%s: %+v, %v", text, h, err)
		}
	}
}

func TestNPYReaders(t *testing.T) {
	const n, size = 200, 64
	data := make([]byte, n*size)
	for i := range data {
		data[i] = byte(i / size)
	}
	path := writeFile(t, filepath.Join(t.TempDir(), "a.npy"), npyFile(1, npyHeaderText("|u1", n, size), data))
	d, err := OpenNPY(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	together(t, d, 4, func(w int, r Reader) {
		dst := make([]byte, size)
		var timing Timing
		for i := w; i < n; i += 4 {
			if err := r.Read(t.Context(), Visit{Index: i, Timing: &timing}, dst); err != nil || dst[0] != byte(i) || dst[size-1] != byte(i) {
				t.Errorf("sample %d is %d: %v", i, dst[0], err)
			}
		}
		if timing.Read <= 0 || timing.Decode != 0 {
			t.Errorf("timing %+v", timing)
		}
	})

	r, _ := d.NewReader()
	dst := make([]byte, size)
	for _, i := range []int{-1, n} {
		if err := r.Read(t.Context(), Visit{Index: i}, dst); !errors.Is(err, ErrArgument) {
			t.Errorf("sample %d: %v", i, err)
		}
	}
	if err := r.Read(t.Context(), Visit{Index: 0}, dst[1:]); !errors.Is(err, ErrArgument) {
		t.Errorf("short destination: %v", err)
	}
	if runtime.GOOS != "windows" { // which does not cut a file that is open
		if err := os.Truncate(path, 128+5*size+1); err != nil {
			t.Fatal(err)
		}
		if err := r.Read(t.Context(), Visit{Index: 4}, dst); err != nil {
			t.Error(err)
		}
		if err := r.Read(t.Context(), Visit{Index: 5}, dst); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path+"[5]") {
			t.Errorf("shrunk file: %v", err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Read(t.Context(), Visit{Index: 0}, dst); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after the array's Close: %v", err)
	}
	r.Close()
	if err := r.Read(t.Context(), Visit{Index: 0}, dst); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// FuzzNPYHeader: an accepted header is sane and says the same when it is
// written again.
func FuzzNPYHeader(f *testing.F) {
	for _, c := range []string{"<f4", "|u1", "<i8"} {
		f.Add(npyFile(1, npyHeaderText(c, 3, 2), nil))
	}
	f.Add(npyFile(2, "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (3,), }", nil))
	f.Add(npyFile(3, "{'descr': '<f4', 'fortran_order': True, 'shape': (3L,), }", nil))
	codes := map[dtype.DType]string{}
	for code, d := range npyTypes {
		if code != "b1" {
			codes[d] = "<" + code
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := readNPYHeader(bytes.NewReader(file))
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrEmpty) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("unknown kind of error: %v", err)
			}
			return
		}
		if h.bytes < 10 || h.bytes > int64(len(file)) || len(h.shape) < 1 || elements(h.shape) < 1 || !h.dtype.Valid() {
			t.Errorf("%+v from %d bytes", h, len(file))
		}
		again, err := parseNPYHeader(npyHeaderText(codes[h.dtype], h.shape...))
		if err != nil || again.dtype != h.dtype || !slices.Equal(again.shape, h.shape) {
			t.Errorf("%+v, read again %+v, %v", h, again, err)
		}
	})
}
