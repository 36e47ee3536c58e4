package nifti

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// kindsOfFiles calls fn for files of both versions and byte orders, compressed or not, of
// i16 voxels 0, 1, 2, … that are scaled by 0.5 and -3, with places in space.
func kindsOfFiles(t *testing.T, dim []int64, fn func(what, path string)) {
	n := int64(1)
	for _, d := range dim {
		n *= d
	}
	voxels := make([]int16, n)
	for i := range voxels {
		voxels[i] = int16(i)
	}
	for _, version := range []int{1, 2} {
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			m := niftiImage{version, order, 4, 16, dim, 0.5, -3, 600, voxels}
			file := m.bytes(t)
			for _, part := range map[int][][2]int{1: {{76, 108}, {252, 344}}, 2: {{104, 168}, {344, 504}}}[version] {
				for k := part[0]; k < part[1]; k++ {
					file[k] = byte(k)
				}
			}
			dir := datatest.Folder(t, map[string][]byte{"a.nii": file, "b.nii.gz": zipped(t, file)})
			for _, name := range []string{"a.nii", "b.nii.gz"} {
				fn(fmt.Sprintf("NIfTI-%d, %v, %v, %s", version, order, dim, name), filepath.Join(dir, name))
			}
		}
	}
}

// Rows are what a dataset has of the file.
func TestVolumeRows(t *testing.T) {
	for _, dim := range [][]int64{{5, 4, 7}, {5, 4, 7, 3}, {3, 2, 4, 2, 2}, {6, 7}, {9}} {
		kindsOfFiles(t, dim, func(what, path string) {
			v, err := OpenVolume(path)
			testkit.OK(t, err)
			defer v.Close()
			size, channels := v.Size(), v.Channels()
			rest := int(elements(size[1:]))
			var want []float32
			for i := range channels * size[0] * rest {
				want = append(want, float32(i)*0.5-3)
			}
			got := make([]float32, len(want))
			for from := 0; from < size[0]; {
				rows := min(1+from%3, size[0]-from)
				data := make([]float32, channels*rows*rest)
				testkit.OK(t, v.ReadRows(t.Context(), from, rows, data))
				for c := range channels {
					copy(got[(c*size[0]+from)*rest:], data[c*rows*rest:][:rows*rest])
				}
				from += rows
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: size %v, %d channels: %v", what, size, channels, got)
			}
			testkit.WantError(t, what, v.ReadRows(t.Context(), size[0]-1, 2, make([]float32, channels*2*rest)), dataset.ErrArgument, "of "+fmt.Sprint(size[0]))
			testkit.OK(t, v.Close())
			testkit.OK(t, v.Close())
			testkit.WantError(t, what, v.ReadRows(t.Context(), 0, 1, make([]float32, channels*rest)), fs.ErrClosed)
		})
	}
}

// Rows of a compressed file come in any order, and one that is damaged is said to be.
func TestVolumeCompressed(t *testing.T) {
	file := counted.bytes(t)
	zip := zipped(t, file)
	broken := slices.Clone(zip)
	broken[len(broken)-8] ^= 1 // of the checksum
	dir := datatest.Folder(t, map[string][]byte{"a.nii.gz": zip, "cut.nii.gz": zip[:len(zip)-20], "broken.nii.gz": broken})
	open := func(name string) *Volume {
		v := testkit.Must(OpenVolume(filepath.Join(dir, name)))(t)
		t.Cleanup(func() { testkit.OK(t, v.Close()) })
		return v
	}
	data := make([]float32, 120)
	a := open("a.nii.gz")
	for _, rows := range [][2]int{{1, 2}, {3, 1}, {0, 1}, {0, 4}, {2, 2}} { // in any order
		got := data[:30*rows[1]]
		testkit.OK(t, a.ReadRows(t.Context(), rows[0], rows[1], got))
		for i, v := range got {
			if v != float32(30*rows[0]+i) {
				t.Fatalf("rows %v: %v", rows, got)
			}
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.WantError(t, "ended", a.ReadRows(ended, 0, 1, data[:30]), context.Canceled)
	testkit.OK(t, a.ReadRows(t.Context(), 0, 1, data[:30]))
	testkit.WantError(t, "cut", open("cut.nii.gz").ReadRows(t.Context(), 0, 4, data), dataset.ErrDamaged, "rows 0 to 4", "unexpected EOF")
	testkit.WantError(t, "checksum", open("broken.nii.gz").ReadRows(t.Context(), 0, 4, data), dataset.ErrDamaged, "checksum")
	_, err := OpenVolume(filepath.Join(dir, "none.nii"))
	testkit.WantError(t, "none", err, fs.ErrNotExist)
}

// What is written is read again, with all of the header that has nothing to do with voxels.
func TestWriter(t *testing.T) {
	for _, dim := range [][]int64{{5, 4, 7}, {6, 7, 2, 3}, {6, 7}} {
		kindsOfFiles(t, dim, func(what, path string) {
			v := testkit.Must(OpenVolume(path))(t)
			defer v.Close()
			size := v.Size()
			rest := int(elements(size[1:]))
			for _, c := range []struct {
				name    string
				classes int
				t       dtype.DType
			}{{"u8.nii", 1, dtype.U8}, {"u8.nii.gz", 1, dtype.U8}, {"i16.nii", 3, dtype.I16}, {"f32.nii", 2, dtype.F32}, {"f32.nii.gz", 1, dtype.F32}} {
				what := what + " to " + c.name
				to := filepath.Join(t.TempDir(), c.name)
				w := testkit.Must(v.Create(to, c.classes, c.t))(t)
				defer w.Discard()
				value := func(i int) float32 {
					switch c.t {
					case dtype.U8:
						return float32(i % 256)
					case dtype.I16:
						return float32(i*37%65536 - 32768)
					}
					return float32(i) * 0.1
				}
				for from := 0; from < size[0]; {
					rows := min(2, size[0]-from)
					var data []float32
					for k := range c.classes {
						for i := range rows * rest {
							data = append(data, value((k*size[0]+from)*rest+i))
						}
					}
					testkit.OK(t, w.WriteRows(t.Context(), from, rows, data))
					from += rows
				}
				testkit.OK(t, w.Commit())
				again := testkit.Must(OpenVolume(to))(t)
				defer again.Close()
				got := make([]float32, c.classes*size[0]*rest)
				if !slices.Equal(again.Size()[len(again.Size())-len(size):], size) || again.Channels()*int(elements(again.Size())) != len(got) {
					t.Fatalf("%s: %d channels of %v", what, again.Channels(), again.Size())
				}
				testkit.OK(t, again.ReadRows(t.Context(), 0, again.Size()[0], got))
				for i, x := range got {
					if x != value(i) {
						t.Fatalf("%s: element %d is %v, want %v", what, i, x, value(i))
					}
				}
				before, after := headOf(t, path), headOf(t, to)
				version, _ := versionOf(before)
				mine := map[int][][2]int{1: {{40, 74}, {92, 96}, {108, 120}, {124, 132}, {328, 344}}, 2: {{12, 104}, {136, 144}, {168, 208}, {504, 524}}}[version]
				for _, part := range mine {
					copy(after[part[0]:part[1]], before[part[0]:part[1]])
				}
				if n := map[int]int{1: header1Bytes, 2: header2Bytes}[version]; !bytes.Equal(before[:n], after[:n]) {
					t.Errorf("%s: another header", what)
				}
			}
		})
	}
}

// headOf is what a file begins with, decompressed.
func headOf(t *testing.T, path string) []byte {
	b := testkit.Must(os.ReadFile(path))(t)
	if bytes.HasPrefix(b, []byte(gzipMagic)) {
		b = testkit.Must(gunzipHead(bytes.NewReader(b)))(t)
	}
	return append(slices.Clone(b), make([]byte, header2Bytes)...)[:header2Bytes]
}

// Results that cannot be written are refused, and leave no file.
func TestWriterRefused(t *testing.T) {
	dir := datatest.Folder(t, map[string][]byte{"a.nii": counted.bytes(t)})
	v := testkit.Must(OpenVolume(filepath.Join(dir, "a.nii")))(t)
	defer v.Close()
	for want, c := range map[string]struct {
		name    string
		classes int
		t       dtype.DType
	}{
		"want u8, i16 or f32":       {"b.nii", 1, dtype.F64},
		"0 classes":                 {"b.nii", 0, dtype.U8},
		"ends with .nii or .nii.gz": {"b.img", 1, dtype.U8},
		"write a .nii file":         {"b.nii.gz", 2, dtype.U8},
	} {
		_, err := v.Create(filepath.Join(dir, c.name), c.classes, c.t)
		testkit.WantError(t, c.name, err, dataset.ErrArgument, want)
	}
	for want, values := range map[string][2]float32{"256 is no u8": {0, 256}, "0.5 is no u8": {0.5, 1}, "-1 is no u8": {-1, 0}, "NaN is no u8": {float32(math.NaN()), 0}} {
		w := testkit.Must(v.Create(filepath.Join(dir, "b.nii"), 1, dtype.U8))(t)
		data := make([]float32, 30)
		copy(data[7:], values[:])
		testkit.WantError(t, "rows", w.WriteRows(t.Context(), 0, 1, data), dataset.ErrArgument, want, "rows 0 to 1")
		testkit.WantError(t, "rows behind", w.WriteRows(t.Context(), 0, 1, make([]float32, 30)), dataset.ErrArgument, want)
		testkit.WantError(t, "commit", w.Commit(), dataset.ErrArgument, want)
		testkit.OK(t, w.Discard())
	}
	w := testkit.Must(v.Create(filepath.Join(dir, "b.nii"), 1, dtype.U8))(t)
	testkit.WantError(t, "out of order", w.WriteRows(t.Context(), 1, 1, make([]float32, 30)), dataset.ErrArgument, "rows 1 to 2 behind row 0 of 4")
	testkit.WantError(t, "too few numbers", w.WriteRows(t.Context(), 0, 1, make([]float32, 29)), dataset.ErrArgument, "29 numbers")
	testkit.OK(t, w.WriteRows(t.Context(), 0, 3, make([]float32, 90)))
	testkit.WantError(t, "too early", w.Commit(), dataset.ErrArgument, "3 of 4 rows were written")
	testkit.OK(t, w.Discard())
	testkit.OK(t, w.Discard())
	testkit.WantError(t, "over", w.WriteRows(t.Context(), 3, 1, make([]float32, 30)), fs.ErrClosed)
	if files := testkit.Must(os.ReadDir(dir))(t); len(files) != 1 {
		t.Errorf("%v", files)
	}
}
