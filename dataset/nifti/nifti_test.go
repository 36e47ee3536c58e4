package nifti

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// niftiImage is what a test file holds.
type niftiImage struct {
	version      int
	order        binary.ByteOrder
	code, bits   int
	dim          []int64 // the file's order: x first
	slope, inter float64
	offset       int // 0: right behind the header
	voxels       any // a slice of numbers
}

func (m niftiImage) bytes(t testing.TB) []byte {
	t.Helper()
	bytesOf := map[int]int{1: 352, 2: 544}[m.version]
	m.offset = max(m.offset, bytesOf)
	head := make([]byte, bytesOf)
	put := func(at int, v any) {
		if _, err := binary.Encode(head[at:], m.order, v); err != nil {
			t.Fatal(err)
		}
	}
	put(0, int32(bytesOf-4))
	if m.version == 1 {
		put(40, int16(len(m.dim)))
		for i, d := range m.dim {
			put(42+2*i, int16(d))
		}
		put(70, []int16{int16(m.code), int16(m.bits)})
		put(108, []float32{float32(m.offset), float32(m.slope), float32(m.inter)})
		copy(head[344:], "n+1\x00")
	} else {
		copy(head[4:], "n+2\x00\r\n\x1a\n")
		put(12, []int16{int16(m.code), int16(m.bits)})
		put(16, append([]int64{int64(len(m.dim))}, m.dim...))
		put(168, int64(m.offset))
		put(176, []float64{m.slope, m.inter})
	}
	file := append(head, make([]byte, m.offset-len(head))...)
	file, err := binary.Append(file, m.order, m.voxels)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	z.Write(data)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// counted is 0, 1, 2, … as voxels of 6x5x4: x is fastest.
var counted = niftiImage{version: 1, order: binary.LittleEndian, code: 2, bits: 8, dim: []int64{6, 5, 4}, voxels: iota8(120)}

func iota8(n int) []uint8 {
	s := make([]uint8, n)
	for i := range s {
		s[i] = uint8(i)
	}
	return s
}

func TestNIfTITypes(t *testing.T) {
	for _, c := range []struct {
		code, bits int
		voxels     any // 3
		dtype      dtype.DType
		stored     any
	}{
		{2, 8, []uint8{0, 1, 255}, dtype.U8, []uint8{0, 1, 255}},
		{256, 8, []int8{-128, 0, 127}, dtype.I8, []int8{-128, 0, 127}},
		{4, 16, []int16{-32768, 1, 32767}, dtype.I16, []int16{-32768, 1, 32767}},
		{512, 16, []uint16{0, 1, 65535}, dtype.I32, []int32{0, 1, 65535}},
		{8, 32, []int32{-1 << 31, 1, 1<<31 - 1}, dtype.I32, []int32{-1 << 31, 1, 1<<31 - 1}},
		{1024, 64, []int64{-1 << 63, 1, 1 << 40}, dtype.I64, []int64{-1 << 63, 1, 1 << 40}},
		{16, 32, []float32{-1.5, 0.1, 1e30}, dtype.F32, nil},
		{64, 64, []float64{-1.5, 0.1, 1e30}, dtype.F64, []float64{-1.5, 0.1, 1e30}},
	} {
		for _, version := range []int{1, 2} {
			for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
				for _, slope := range []float64{0, 1, 0.25, math.NaN()} {
					m := niftiImage{version, order, c.code, c.bits, []int64{3, 1, 1}, slope, -2, 600 * (version - 1), c.voxels}
					file := m.bytes(t)
					dir := datatest.Folder(t, map[string][]byte{"a.nii": file, "b.nii.gz": zipped(t, file)})
					s, inter := slope, m.inter
					if !(slope > 0) {
						s, inter = 1, 0
					}
					want := fmt.Sprint(scaledBy(c.voxels, s, inter))
					name := fmt.Sprint(c.code, " ", version, " ", order, " ", slope)
					for _, d := range bothOpen(t, dir, Options{}) {
						samples, _ := datatest.ReadAll(t, d)
						got := make([]float32, 3)
						binary.Decode(samples[0], binary.LittleEndian, got)
						if fmt.Sprint(got) != want || d.Spec().String() != "1x1x3 f32" || d.Label(0) > 0 {
							t.Errorf("%s: %v of %v, want %v", name, got, d.Spec(), want)
						}
					}
					if c.stored == nil {
						continue
					}
					raw, _ := binary.Append(nil, binary.LittleEndian, c.stored)
					for _, d := range bothOpen(t, dir, Options{DType: c.dtype}) {
						samples, _ := datatest.ReadAll(t, d)
						if !bytes.Equal(samples[0], raw) || d.Spec().DType != c.dtype {
							t.Errorf("%s: %v as stored, want %v", name, samples[0], raw)
						}
					}
				}
			}
		}
	}
}

// bothOpen opens a.nii and b.nii.gz of a folder, alone and as a folder.
func bothOpen(t testing.TB, dir string, opts Options) []dataset.Dataset {
	t.Helper()
	volumes, err := OpenFolder(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	list := []dataset.Dataset{volumes}
	for _, name := range []string{"a.nii", "b.nii.gz"} {
		d, err := Open(t.Context(), filepath.Join(dir, name), opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		list = append(list, d)
	}
	return list
}

// scaledBy is the model of scaling.
func scaledBy(voxels any, slope, inter float64) (list []float32) {
	raw, _ := binary.Append(nil, binary.LittleEndian, voxels)
	size := len(raw) / 3
	for i := range 3 {
		var v float64
		switch b := raw[i*size:][:size]; voxels.(type) {
		case []uint8:
			v = float64(b[0])
		case []int8:
			v = float64(int8(b[0]))
		case []int16:
			v = float64(int16(binary.LittleEndian.Uint16(b)))
		case []uint16:
			v = float64(binary.LittleEndian.Uint16(b))
		case []int32:
			v = float64(int32(binary.LittleEndian.Uint32(b)))
		case []int64:
			v = float64(int64(binary.LittleEndian.Uint64(b)))
		case []float32:
			v = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case []float64:
			v = math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
		list = append(list, float32(float64(v*slope)+inter))
	}
	return list
}

func TestNIfTIAxes(t *testing.T) {
	for _, c := range []struct {
		dim    []int64
		alone  string
		n      int
		folder string
	}{
		{[]int64{120}, "120 u8", 1, "120 u8"},
		{[]int64{12, 10}, "10x12 u8", 1, "10x12 u8"},
		{[]int64{6, 5, 4}, "4x5x6 u8", 1, "4x5x6 u8"},
		{[]int64{120, 1, 1}, "1x1x120 u8", 1, "1x1x120 u8"},
		{[]int64{6, 5, 4, 1, 1}, "4x5x6 u8", 1, "4x5x6 u8"},
		{[]int64{5, 4, 3, 2}, "3x4x5 u8", 2, "2x3x4x5 u8"},
		{[]int64{5, 4, 3, 1, 2}, "1x3x4x5 u8", 2, "2x1x3x4x5 u8"},
	} {
		m := counted
		m.dim = c.dim
		dir := datatest.Folder(t, map[string][]byte{"a.nii": m.bytes(t), "b.nii.gz": zipped(t, m.bytes(t))})
		for i, d := range bothOpen(t, dir, Options{DType: dtype.U8}) {
			samples, _ := datatest.ReadAll(t, d)
			want, n := c.alone, c.n
			if i == 0 {
				want, n = c.folder, 2
			}
			if d.Spec().String() != want || d.Len() != n || !bytes.HasPrefix(bytes.Join(samples, nil), iota8(120)) {
				t.Errorf("%v: %d of %v, want %d of %s", c.dim, d.Len(), d.Spec(), n, want)
			}
		}
	}
}

// Size against a model that looks at every element.
func TestVolumeSize(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	dir := datatest.Folder(t, map[string][]byte{"a.nii": counted.bytes(t), "b.nii.gz": zipped(t, counted.bytes(t))})
	shape := []int{4, 5, 6}
	for range 60 {
		size := []int{1 + rng.IntN(8), 1 + rng.IntN(8), 1 + rng.IntN(8)}
		var want []byte
		for z := range size[0] {
			for y := range size[1] {
				for x := range size[2] {
					v, at := byte(0), 0
					for axis, i := range []int{z, y, x} {
						n, m := shape[axis], size[axis]
						if m > n {
							i -= (m - n) / 2
						} else {
							i += (n - m) / 2
						}
						if i < 0 || i >= n {
							v = 99
						}
						at = at*n + i
					}
					if v == 0 {
						v = byte(at)
					}
					want = append(want, v)
				}
			}
		}
		for _, d := range bothOpen(t, dir, Options{DType: dtype.U8, Size: size, Fill: 99}) {
			if samples, _ := datatest.ReadAll(t, d); !bytes.Equal(samples[0], want) {
				t.Errorf("%v: %v, want %v", size, samples[0], want)
			}
		}
	}
	for _, c := range []struct {
		dtype dtype.DType
		code  int
		bits  int
		one   any
		fill  float64
		want  any
	}{
		{dtype.F32, 16, 32, []float32{5}, -0.5, []float32{-0.5, 5, -0.5}},
		{dtype.F64, 64, 64, []float64{5}, -1e300, []float64{-1e300, 5, -1e300}},
		{dtype.I8, 256, 8, []int8{5}, -128, []int8{-128, 5, -128}},
		{dtype.I16, 4, 16, []int16{5}, 32767, []int16{32767, 5, 32767}},
		{dtype.I32, 512, 16, []uint16{5}, -1000, []int32{-1000, 5, -1000}},
		{dtype.I64, 1024, 64, []int64{5}, -1 << 63, []int64{-1 << 63, 5, -1 << 63}},
	} {
		m := niftiImage{version: 1, order: binary.BigEndian, code: c.code, bits: c.bits, dim: []int64{1}, voxels: c.one}
		d, err := Open(t.Context(), datatest.WriteFile(t, filepath.Join(t.TempDir(), "a"), m.bytes(t)), Options{DType: c.dtype, Size: []int{3}, Fill: c.fill})
		if err != nil {
			t.Fatal(err)
		}
		want, _ := binary.Append(nil, binary.LittleEndian, c.want)
		if samples, _ := datatest.ReadAll(t, d); !bytes.Equal(samples[0], want) {
			t.Errorf("%v: %v, want %v", c.dtype, samples[0], want)
		}
		d.Close()
	}
}

func TestVolumesOfLengths(t *testing.T) {
	thin := counted
	thin.dim, thin.voxels = []int64{6, 5, 1}, iota8(30)
	dir := datatest.Folder(t, map[string][]byte{"x/a.nii": counted.bytes(t), "y/b.nii": thin.bytes(t)})
	d, err := OpenFolder(t.Context(), dir, Options{DType: dtype.U8})
	if err != nil {
		t.Fatal(err)
	}
	samples := datatest.Samples(t, d)
	if d.Spec().String() != "<=4x5x6 u8" || !bytes.Equal(samples[0], iota8(120)) || !bytes.Equal(samples[1], iota8(30)) || d.Label(1) != 1 {
		t.Error(d.Spec(), samples)
	}
	r, _ := d.NewReader()
	defer r.Close()
	datatest.WriteFile(t, d.Name(1), counted.bytes(t))
	testkit.WantError(t, "changed", r.Read(t.Context(), dataset.Visit{Index: 1}, samples[1]), dataset.ErrDamaged, "b.nii: damaged: the file has changed: a volume of shape [4 5 6]")

	wide := counted
	wide.dim = []int64{5, 6, 4}
	dir = datatest.Folder(t, map[string][]byte{"x/a.nii": counted.bytes(t), "y/b.nii": wide.bytes(t)})
	_, err = OpenFolder(t.Context(), dir, Options{})
	testkit.WantError(t, "shapes", err, dataset.ErrFormat, "b.nii: format not supported: a volume of shape [4 6 5], that of ", "--crop")
	testkit.WantError(t, "shapes", err, dataset.ErrFormat, "a.nii is [4 5 6]")
	if d, err = OpenFolder(t.Context(), dir, Options{Size: []int{2, 2, 2}}); err != nil || d.Spec().String() != "2x2x2 f32" {
		t.Error(err)
	}
}

func TestNIfTIErrors(t *testing.T) {
	good := counted.bytes(t)
	edit := func(at int, v any) []byte {
		file := bytes.Clone(good)
		if _, err := binary.Encode(file[at:], binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
		return file
	}
	second := counted
	second.version = 2
	second.dim = []int64{1 << 40, 1, 1}
	crc := zipped(t, good)
	crc[len(crc)-8] ^= 1
	for _, c := range []struct {
		name string
		file []byte
		opts Options
		err  error
		text string
	}{
		{"empty", []byte{}, Options{}, dataset.ErrFormat, `begins with ""`},
		{"text", []byte("id,label\n1,2\n"), Options{}, dataset.ErrFormat, `begins with "id,label"`},
		{"header cut", good[:347], Options{}, dataset.ErrFormat, "not a NIfTI"},
		{"pair of files", edit(344, []byte("ni1\x00")), Options{}, dataset.ErrFormat, "header and voxels"},
		{"type", edit(70, int16(128)), Options{}, dataset.ErrFormat, "type 128"},
		{"bits", edit(72, int16(16)), Options{}, dataset.ErrDamaged, "type 2 and 16 bits"},
		{"no axes", edit(40, int16(0)), Options{}, dataset.ErrDamaged, "0 axes"},
		{"8 axes", edit(40, int16(8)), Options{}, dataset.ErrDamaged, "8 axes"},
		{"no voxels", edit(44, int16(0)), Options{}, dataset.ErrDamaged, "axis 2 of 0 voxels"},
		{"negative", edit(42, int16(-6)), Options{}, dataset.ErrDamaged, "axis 1 of -6 voxels"},
		{"huge axis", second.bytes(t), Options{}, dataset.ErrDamaged, "axis 1 of 1099511627776 voxels"},
		{"huge volume", edit(42, []int16{32767, 32767, 32767}), Options{}, dataset.ErrTooLarge, "the limit is 1073741824 bytes"},
		{"cut short", good[:len(good)-1], Options{}, dataset.ErrDamaged, "the file has 471 bytes; voxels of shape [4 5 6] begin at 352 and have 120"},
		{"in the header", edit(108, float32(348)), Options{}, dataset.ErrDamaged, "begin at 348"},
		{"offset", edit(108, float32(352.5)), Options{}, dataset.ErrDamaged, "begin at 352.5"},
		{"no offset", edit(108, float32(math.NaN())), Options{}, dataset.ErrDamaged, "begin at NaN"},
		{"offset beyond the file", edit(108, float32(1e6)), Options{}, dataset.ErrDamaged, "begin at 1000000"},
		{"offset beyond the limit", edit(108, float32(1e12)), Options{}, dataset.ErrTooLarge, "the limit is"},
		{"offset beyond int64", edit(108, float32(1e30)), Options{}, dataset.ErrDamaged, "begin at"},
		{"inter", edit(112, []float32{2, float32(math.Inf(1))}), Options{}, dataset.ErrDamaged, "scaling by 2 plus +Inf"},
		{"another type", good, Options{DType: dtype.I16}, dataset.ErrFormat, "voxels of type u8; want i16"},
		{"rank", good, Options{Size: []int{4, 4}}, dataset.ErrFormat, "shape [4 5 6], size [4 4]"},
		{"limit", good, Options{MaxBytes: 479}, dataset.ErrTooLarge, "the limit is 479 bytes"},
		{"limit of the size", good, Options{MaxBytes: 480, Size: []int{5, 5, 5}}, dataset.ErrTooLarge, "[5 5 5]"},
		{"size", good, Options{Size: []int{4, 0, 4}}, dataset.ErrArgument, "size [4 0 4]"},
		{"dtype", good, Options{DType: dtype.F16}, dataset.ErrArgument, "volumes of type f16"},
		{"fill", good, Options{DType: dtype.U8, Fill: -1}, dataset.ErrArgument, "type u8 cannot be filled up with -1"},
		{"fill", good, Options{DType: dtype.I16, Fill: 0.5}, dataset.ErrArgument, "0.5"},
		{"fill", good, Options{Fill: 1e39}, dataset.ErrArgument, "type f32 cannot be filled up with 1e+39"},
		{"fill", good, Options{DType: dtype.I64, Fill: 1 << 63}, dataset.ErrArgument, "i64"},
		{"gzip of text", zipped(t, []byte("hello")), Options{}, dataset.ErrFormat, `begins with "hello"`},
		{"gzip header", []byte("\x1f\x8bxxxxxxxxxxxxxxx"), Options{}, dataset.ErrDamaged, "gzip"},
		{"gzip header cut", zipped(t, good)[:30], Options{}, dataset.ErrDamaged, "gzip"},
		{"gzip bomb", zipped(t, edit(42, []int16{100, 100, 100})), Options{}, dataset.ErrDamaged, "cannot decompress to a volume of 1000000 bytes"},
	} {
		for name, open := range map[string]func(dir string) error{
			"file":   func(dir string) error { return datatest.ErrOf(Open(t.Context(), filepath.Join(dir, "a.nii"), c.opts)) },
			"folder": func(dir string) error { return datatest.ErrOf(OpenFolder(t.Context(), dir, c.opts)) },
		} {
			dir := datatest.Folder(t, map[string][]byte{"a.nii": c.file})
			err := open(dir)
			testkit.WantError(t, c.name+" "+name, err, c.err, c.text)
			testkit.WantError(t, c.name+" "+name, err, c.err, dir)
		}
	}
	// What shows when the voxels are read.
	for name, file := range map[string][]byte{"after 0 of 120 bytes": zipped(t, good[:352]), "after 119 of 120 bytes": zipped(t, good[:471]), "checksum": crc} {
		dir := datatest.Folder(t, map[string][]byte{"a.nii.gz": file})
		_, err := Open(t.Context(), filepath.Join(dir, "a.nii.gz"), Options{})
		testkit.WantError(t, "file", err, dataset.ErrDamaged, name)
		d, err := OpenFolder(t.Context(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, _ := d.NewReader()
		err = r.Read(t.Context(), dataset.Visit{}, make([]byte, 480))
		testkit.WantError(t, "folder", err, dataset.ErrDamaged, name)
		testkit.WantError(t, "folder", err, dataset.ErrDamaged, "a.nii.gz: ")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		testkit.WantError(t, "cancelled", r.Read(ctx, dataset.Visit{}, make([]byte, 480)), context.Canceled, "a.nii.gz: ")
		r.Close()
	}
	many := counted
	many.dim = []int64{6, 5, 2, 2}
	path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "a.nii.gz"), zipped(t, many.bytes(t)))
	_, err := Open(t.Context(), path, Options{DType: dtype.U8, MaxBytes: 352})
	if err != nil {
		t.Error(err)
	}
	many.offset, many.voxels = 352, iota8(480)
	many.dim[3] = 8
	datatest.WriteFile(t, path, zipped(t, many.bytes(t)))
	_, err = Open(t.Context(), path, Options{DType: dtype.U8, MaxBytes: 479})
	testkit.WantError(t, "all of a compressed file", err, dataset.ErrTooLarge, "8 volumes of [2 5 6], 480 bytes compressed in one file; the limit is 479 bytes")
	_, err = Open(t.Context(), path+"x", Options{})
	testkit.WantError(t, "missing", err, fs.ErrNotExist, "a.nii.gzx")
	_, err = OpenFolder(t.Context(), t.TempDir(), Options{})
	testkit.WantError(t, "no files", err, dataset.ErrEmpty, "no files; looked for .nii, .nii.gz")
}

func TestNIfTIClose(t *testing.T) {
	path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "a.nii"), counted.bytes(t))
	d, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := d.NewReader()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.WantError(t, "after Close", r.Read(t.Context(), dataset.Visit{}, make([]byte, 480)), fs.ErrClosed, path+"[0]")
	if err := os.Remove(path); err != nil {
		t.Error(err)
	}
}

// FuzzNIfTI: an accepted header is sane, says the same when it is written
// again, and voxels of it can be read.
func FuzzNIfTI(f *testing.F) {
	f.Add(counted.bytes(f))
	f.Add(niftiImage{2, binary.BigEndian, 512, 16, []int64{3, 2, 1, 2}, 2, 1, 0, make([]uint16, 12)}.bytes(f))
	f.Add(niftiImage{1, binary.BigEndian, 64, 64, []int64{2}, 0, 0, 400, []float64{1, 2}}.bytes(f))
	f.Fuzz(func(t *testing.T, content []byte) {
		h, err := parseHeader(content)
		if err != nil {
			if !errors.Is(err, dataset.ErrFormat) && !errors.Is(err, dataset.ErrDamaged) {
				t.Errorf("unknown kind of error: %v", err)
			}
			return
		}
		n := source{header: h, size: int64(len(content))}
		all, err := volumeBytes(h.shape, h.kind.size, 1<<20)
		if err != nil || n.checkSize(all) != nil {
			return
		}
		m := niftiImage{version: 2, order: binary.LittleEndian, code: h.kind.code, bits: 8 * h.kind.size, slope: h.slope, inter: h.inter, voxels: []uint8{}}
		for _, d := range slices.Backward(h.shape) {
			m.dim = append(m.dim, int64(d))
		}
		again, err := parseHeader(m.bytes(t))
		again.offset, again.bigEndian = h.offset, h.bigEndian
		if err != nil || fmt.Sprint(again) != fmt.Sprint(h) {
			t.Errorf("%+v, read again %+v, %v", h, again, err)
		}
		size := slices.Clone(h.shape)
		size[0], size[len(size)-1] = size[0]+1, max(size[len(size)-1]-1, 1)
		r := voxelReader{opts: Options{DType: dtype.F32, Size: size}}
		dst := make([]byte, 4*elements(size))
		err = r.read(dst, h, h.shape, nil, func(b []byte) error { return file.ReadFull(bytes.NewReader(content), b, h.offset) })
		if err != nil || len(size) > 1 && strings.Trim(string(dst[len(dst)-4:]), "\x00") != "" {
			t.Errorf("%v: %v", dst, err)
		}
	})
}

// TestUnsigned: voxels of 32 and 64 bits without sign, as F32 and as I64, of both
// byte orders; what I64 cannot hold is an error of its volume.
func TestUnsigned(t *testing.T) {
	for _, c := range []struct {
		code, bits int
		voxels     any
	}{
		{768, 32, []uint32{1, 2, 3_000_000_000, 4}},
		{1280, 64, []uint64{1, 2, 3_000_000_000, 4}},
	} {
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			m := niftiImage{version: 1, order: order, code: c.code, bits: c.bits, dim: []int64{2, 2}, voxels: c.voxels}
			dir := datatest.Folder(t, map[string][]byte{"a.nii": m.bytes(t), "b.nii.gz": zipped(t, m.bytes(t))})
			for _, d := range bothOpen(t, dir, Options{}) {
				if got, _ := datatest.ReadAll(t, d); !bytes.Equal(got[0], datatest.Floats(1, 2, 3e9, 4)) {
					t.Errorf("%d, %v: % x", c.code, order, got[0])
				}
			}
			for _, d := range bothOpen(t, dir, Options{DType: dtype.I64}) {
				want, _ := dataset.Bytes([]int64{1, 2, 3_000_000_000, 4})
				if got, _ := datatest.ReadAll(t, d); !bytes.Equal(got[0], want) {
					t.Errorf("%d, %v: % x, want % x", c.code, order, got[0], want)
				}
			}
		}
	}
	m := niftiImage{version: 1, order: binary.LittleEndian, code: 1280, bits: 64, dim: []int64{2}, voxels: []uint64{1, 1 << 63}}
	d, err := Open(t.Context(), datatest.WriteFile(t, filepath.Join(t.TempDir(), "a.nii"), m.bytes(t)), Options{DType: dtype.I64})
	testkit.OK(t, err)
	defer d.Close()
	r, err := d.NewReader()
	testkit.OK(t, err)
	testkit.WantError(t, "too large", r.Read(t.Context(), dataset.Visit{}, make([]byte, 16)), dataset.ErrFormat, "a.nii[0]: ", "9223372036854775808, which is too large")
}

// TestBadVolume: a bad file is an error of its sample, and the others are read.
func TestBadVolume(t *testing.T) {
	good := counted.bytes(t)
	dir := datatest.Folder(t, map[string][]byte{"a.nii": good, "b.nii": good[:100], "c.nii.gz": []byte("?"), "e.nii": good, "f.nii": good, "g.nii": good})
	datatest.Link(t, "nowhere", filepath.Join(dir, "d.nii"))
	d, err := OpenFolder(t.Context(), dir, Options{})
	testkit.OK(t, err)
	if w := dataset.Warnings(d); len(w) != 1 || !strings.Contains(w[0], "3 of 7 files cannot be read; the first: "+d.Name(1)) || d.Spec().Ragged {
		t.Errorf("warnings %q of %v", w, d.Spec())
	}
	r, err := d.NewReader()
	testkit.OK(t, err)
	defer r.Close()
	for i, kind := range []error{nil, dataset.ErrFormat, dataset.ErrFormat, fs.ErrNotExist, nil, nil, nil} {
		err := r.Read(t.Context(), dataset.Visit{Index: i}, make([]byte, dataset.SampleBytes(d, i)))
		if !errors.Is(err, kind) || err != nil && !strings.Contains(err.Error(), d.Name(i)) {
			t.Errorf("%s: %v, want %v", d.Name(i), err, kind)
		}
	}
}
