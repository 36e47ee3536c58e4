package npy

import (
	"archive/zip"
	"bytes"
	"cmp"
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

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dataset/internal/stored"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

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
				path := datatest.WriteFile(t, filepath.Join(dir, "a.npy"), datatest.NPY(version, datatest.NPYHeader(c.descr, shape...), data))
				d, err := Open(t.Context(), path, Options{})
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
					if err := r.Read(t.Context(), dataset.Visit{Index: i}, dst); err != nil {
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
	good := datatest.NPY(1, datatest.NPYHeader("<f4", 3, 2), make([]byte, 24))
	huge := datatest.NPY(2, "", nil)
	binary.LittleEndian.PutUint32(huge[8:], math.MaxUint32)
	header := func(text string) []byte { return datatest.NPY(1, text, make([]byte, 24)) }
	structure := "{'descr': [('x', '<f4'), ('y', '<f4')], 'fortran_order': False, 'shape': (3,), }"
	tests := []struct {
		name string
		file []byte
		err  error
		text string
	}{
		{"empty file", nil, dataset.ErrFormat, `begins with ""`},
		{"text", []byte("id,label\n1,2\n"), dataset.ErrFormat, `begins with "id,lab"`},
		{"magic only", good[:6], dataset.ErrDamaged, "ends after 6 bytes"},
		{"half a header", good[:40], dataset.ErrDamaged, "118 bytes, the file 30 of them"},
		{"version 4", datatest.NPY(4, datatest.NPYHeader("<f4", 1), nil), dataset.ErrFormat, "version 4.0"},
		{"huge header", huge, dataset.ErrDamaged, "4294967295 bytes, the limit is 65536"},
		{"cut short", good[:len(good)-1], dataset.ErrDamaged, "has 151 bytes, its header (3x2 f32) promises 152"},
		{"too long", append(bytes.Clone(good), 0), dataset.ErrDamaged, "has 153 bytes, its header (3x2 f32) promises 152"},
		{"objects", header(datatest.NPYHeader("|O", 3)), dataset.ErrFormat, "Python objects"},
		{"structure", header(structure), dataset.ErrFormat, "an array of its own"},
		{"strings", header(datatest.NPYHeader("<U8", 3)), dataset.ErrFormat, `type "<U8"`},
		{"complex", header(datatest.NPYHeader("<c8", 3)), dataset.ErrFormat, `type "<c8"`},
		{"no byte order", header(datatest.NPYHeader("|f4", 3)), dataset.ErrDamaged, "no byte order"},
		{"scalar", header("{'descr': '<f4', 'fortran_order': False, 'shape': (), }"), dataset.ErrFormat, "scalar"},
		{"no samples", header(datatest.NPYHeader("<f4", 0, 2)), dataset.ErrEmpty, "[0 2]"},
		{"samples of nothing", header(datatest.NPYHeader("<f4", 3, 0)), dataset.ErrEmpty, "[3 0]"},
		{"overflow", header(datatest.NPYHeader("<f4", math.MaxInt, 9)), dataset.ErrTooLarge, "shape"},
		{"overflow to zero", header(datatest.NPYHeader("<f8", 1<<30, 1<<30, 16)), dataset.ErrTooLarge, "shape"},
		{"beyond int", header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }"), dataset.ErrDamaged, "bad shape"},
		{"negative", header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"), dataset.ErrDamaged, "bad shape"},
		{"no tuple", header("{'descr': '<f4', 'fortran_order': False, 'shape': (3), }"), dataset.ErrDamaged, "tuple"},
		{"key missing", header("{'descr': '<f4', 'shape': (3,)}"), dataset.ErrDamaged, "only 2 of the keys"},
		{"key twice", header("{'descr': '<f4', 'descr': '<f4', 'shape': (3,)}"), dataset.ErrDamaged, "twice"},
		{"key unknown", header("{'descr': '<f4', 'order': 'C'}"), dataset.ErrDamaged, `unknown key "order"`},
		{"no dictionary", header("[1, 2]"), dataset.ErrDamaged, `"{" expected`},
		{"more behind", header(datatest.NPYHeader("<f4", 3, 2) + "{}"), dataset.ErrDamaged, "after the dictionary"},
		{"open end", header("{'descr': '<f4'"), dataset.ErrDamaged, "expected"},
		{"open string", header("{'descr"), dataset.ErrDamaged, "string expected"},
	}
	for _, c := range tests {
		path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "bad.npy"), c.file)
		_, err := Open(t.Context(), path, Options{})
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "none.npy"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Open(t.Context(), t.TempDir(), Options{}); !errors.Is(err, dataset.ErrFormat) {
		t.Errorf("folder: %v", err)
	}
}

// TestNPYFortranVector: of an array of one long axis both orders are the same.
func TestNPYFortranVector(t *testing.T) {
	for _, shape := range [][]int{{3}, {3, 1}, {1, 3}, {1, 1, 1}} {
		text := strings.Replace(datatest.NPYHeader("<f4", shape...), "False", "True", 1)
		path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "a.npy"), datatest.NPY(1, text, make([]byte, 4*elements(shape))))
		d, err := Open(t.Context(), path, Options{})
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
		h, err := parseHeader(text)
		if err != nil || h.DType != dtype.F32 || !slices.Equal(h.shape, []int{3, 2}) {
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
	path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "a.npy"), datatest.NPY(1, datatest.NPYHeader("|u1", n, size), data))
	d, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	datatest.Together(t, d, 4, func(w int, r dataset.Reader) {
		dst := make([]byte, size)
		var timing dataset.Timing
		for i := w; i < n; i += 4 {
			if err := r.Read(t.Context(), dataset.Visit{Index: i, Timing: &timing}, dst); err != nil || dst[0] != byte(i) || dst[size-1] != byte(i) {
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
		if err := r.Read(t.Context(), dataset.Visit{Index: i}, dst); !errors.Is(err, dataset.ErrArgument) {
			t.Errorf("sample %d: %v", i, err)
		}
	}
	if err := r.Read(t.Context(), dataset.Visit{Index: 0}, dst[1:]); !errors.Is(err, dataset.ErrArgument) {
		t.Errorf("short destination: %v", err)
	}
	if runtime.GOOS != "windows" { // which does not cut a file that is open
		if err := os.Truncate(path, 128+5*size+1); err != nil {
			t.Fatal(err)
		}
		if err := r.Read(t.Context(), dataset.Visit{Index: 4}, dst); err != nil {
			t.Error(err)
		}
		if err := r.Read(t.Context(), dataset.Visit{Index: 5}, dst); !errors.Is(err, dataset.ErrDamaged) || !strings.Contains(err.Error(), path+"[5]") {
			t.Errorf("shrunk file: %v", err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Read(t.Context(), dataset.Visit{Index: 0}, dst); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after the array's Close: %v", err)
	}
	r.Close()
	if err := r.Read(t.Context(), dataset.Visit{Index: 0}, dst); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// FuzzNPYHeader: an accepted header is sane and says the same when it is
// written again.
func FuzzNPYHeader(f *testing.F) {
	for _, c := range []string{"<f4", "|u1", "<i8"} {
		f.Add(datatest.NPY(1, datatest.NPYHeader(c, 3, 2), nil))
	}
	f.Add(datatest.NPY(2, "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (3,), }", nil))
	f.Add(datatest.NPY(3, "{'descr': '<f4', 'fortran_order': True, 'shape': (3L,), }", nil))
	codes := map[stored.Type]string{}
	for code, d := range types {
		if code != "b1" {
			codes[d] = "<" + code
			d.BigEndian = d.Size > 1
			codes[d] = cmp.Or(codes[d], ">"+code)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := readHeader(bytes.NewReader(file))
		if err != nil {
			if !errors.Is(err, dataset.ErrFormat) && !errors.Is(err, dataset.ErrDamaged) && !errors.Is(err, dataset.ErrEmpty) && !errors.Is(err, dataset.ErrTooLarge) {
				t.Errorf("unknown kind of error: %v", err)
			}
			return
		}
		if h.bytes < 10 || h.bytes > int64(len(file)) || len(h.shape) < 1 || elements(h.shape) < 1 || !h.DType.Valid() {
			t.Errorf("%+v from %d bytes", h, len(file))
		}
		again, err := parseHeader(datatest.NPYHeader(codes[h.Type], h.shape...))
		if err != nil || again.Type != h.Type || !slices.Equal(again.shape, h.shape) {
			t.Errorf("%+v, read again %+v, %v", h, again, err)
		}
	})
}

// TestStored: arrays of other orders of bytes and axes, and numbers without sign,
// in files, archives, and as one sample each.
func TestStored(t *testing.T) {
	// numpy.arange(6).reshape(3, 2), as numpy stores it.
	rows := func(order binary.AppendByteOrder, size int, list ...int) (b []byte) {
		for _, v := range list {
			switch size {
			case 2:
				b = order.AppendUint16(b, uint16(v))
			case 4:
				b = order.AppendUint32(b, uint32(v))
			case 8:
				b = order.AppendUint64(b, uint64(v))
			}
		}
		return b
	}
	le, be := binary.LittleEndian, binary.BigEndian
	inC, inF := []int{0, 1, 2, 3, 4, 5}, []int{0, 2, 4, 1, 3, 5}
	for _, c := range []struct {
		descr   string
		fortran bool
		file    []byte
		want    []byte
		dtype   dtype.DType
	}{
		{">i2", false, rows(be, 2, inC...), rows(le, 2, inC...), dtype.I16},
		{">i8", false, rows(be, 8, inC...), rows(le, 8, inC...), dtype.I64},
		{"<u4", false, rows(le, 4, inC...), rows(le, 8, inC...), dtype.I64},
		{">u4", false, rows(be, 4, inC...), rows(le, 8, inC...), dtype.I64},
		{"<u8", false, rows(le, 8, inC...), rows(le, 8, inC...), dtype.I64},
		{"<i4", true, rows(le, 4, inF...), rows(le, 4, inC...), dtype.I32},
		{">u4", true, rows(be, 4, inF...), rows(le, 8, inC...), dtype.I64},
	} {
		name := fmt.Sprint(c.descr, " ", c.fortran)
		text := datatest.NPYHeader(c.descr, 3, 2)
		if c.fortran {
			text = strings.Replace(text, "False", "True", 1)
		}
		content := datatest.NPY(1, text, c.file)
		dir := datatest.Folder(t, map[string][]byte{
			"a.npy": content, "stored.npz": npzFile(t, npzMember{"x.npy", zip.Store, content}), "packed.npz": npzFile(t, npzMember{"x.npy", zip.Deflate, content}),
			"many/0.npy": content, "many/1.npy": content,
		})
		check := func(d dataset.Dataset, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if got, _ := datatest.ReadAll(t, d); !bytes.Equal(bytes.Join(got, nil), c.want) || d.Spec().DType != c.dtype {
				t.Errorf("%s: % x of %v, want % x of %v", name, got, d.Spec(), c.want, c.dtype)
			}
			testkit.OK(t, dataset.Close(d))
		}
		check(Open(t.Context(), filepath.Join(dir, "a.npy"), Options{}))
		check(OpenNPZ(t.Context(), filepath.Join(dir, "stored.npz"), NPZOptions{}))
		check(OpenNPZ(t.Context(), filepath.Join(dir, "packed.npz"), NPZOptions{}))
		files, err := dataset.OpenFolder(t.Context(), filepath.Join(dir, "many"), dataset.FolderOptions{Extensions: []string{".npy"}})
		testkit.OK(t, err)
		many, err := NewArrays(t.Context(), files)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, _ := datatest.ReadAll(t, many); !bytes.Equal(got[1], c.want) {
			t.Errorf("%s, as a sample: % x, want % x", name, got[1], c.want)
		}
	}
	fortran := strings.Replace(datatest.NPYHeader("<f4", 3, 2), "False", "True", 1)
	path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "a.npy"), datatest.NPY(1, fortran, make([]byte, 24)))
	_, err := Open(t.Context(), path, Options{MaxBytes: 23})
	testkit.WantError(t, "limit", err, dataset.ErrTooLarge, "24 bytes in Fortran order, the limit is 23")
	path = datatest.WriteFile(t, path, datatest.NPY(1, datatest.NPYHeader("<u8", 2), append(make([]byte, 8), bytes.Repeat([]byte{255}, 8)...)))
	d, err := Open(t.Context(), path, Options{})
	testkit.OK(t, err)
	defer d.Close()
	r, _ := d.NewReader()
	testkit.OK(t, r.Read(t.Context(), dataset.Visit{}, make([]byte, 8)))
	testkit.WantError(t, "too large", r.Read(t.Context(), dataset.Visit{Index: 1}, make([]byte, 8)), dataset.ErrFormat, "a.npy[1]: ", "18446744073709551615, which is too large for i64")
}

// TestLabelsBeside: labels are in another file, named or found.
func TestLabelsBeside(t *testing.T) {
	dir := datatest.Folder(t, map[string][]byte{
		"x.npy": array4(), "x.labels.npy": datatest.NPY(1, datatest.NPYHeader(">u4", 4, 1), []byte{0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 9}),
		"y.npy": array4(), "other.npy": datatest.NPY(1, datatest.NPYHeader("|u1", 4), []byte{5, 6, 7, 8}),
	})
	for _, c := range []struct {
		name, label, want string
	}{{"x", "", "1 2 3 9"}, {"x", "other.npy", "5 6 7 8"}, {"y", "", "-1 -1 -1 -1"}, {"y", "x.labels.npy", "1 2 3 9"}} {
		opts := Options{}
		if c.label != "" {
			opts.Label = filepath.Join(dir, c.label)
		}
		d, err := Open(t.Context(), filepath.Join(dir, c.name+".npy"), opts)
		if err != nil {
			t.Error(err)
			continue
		}
		_, labels := datatest.ReadAll(t, d)
		if got := strings.Trim(fmt.Sprint(labels), "[]"); got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.name, c.label, got, c.want)
		}
		testkit.OK(t, d.Close())
	}
	_, err := Open(t.Context(), filepath.Join(dir, "x.npy"), Options{Label: filepath.Join(dir, "none.npy")})
	testkit.WantError(t, "missing", err, fs.ErrNotExist, "none.npy")
	datatest.WriteFile(t, filepath.Join(dir, "x.labels.npy"), datatest.NPY(1, datatest.NPYHeader("|u1", 3), []byte{1, 2, 3}))
	_, err = Open(t.Context(), filepath.Join(dir, "x.npy"), Options{})
	testkit.WantError(t, "count", err, dataset.ErrArgument, "x.labels.npy: bad argument: labels of shape [3] for 4 samples")
}

func array4() []byte { return datatest.NPY(1, datatest.NPYHeader("|u1", 4), []byte("abcd")) }
