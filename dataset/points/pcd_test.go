package points

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// pcdFile makes a .pcd file as PCL writes it.
func pcdFile(data, fields, sizes, types, counts string, points int, content []byte) []byte {
	header := fmt.Sprintf("# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS %s\nSIZE %s\nTYPE %s\nCOUNT %s\nWIDTH %d\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS %d\nDATA %s\n",
		fields, sizes, types, counts, points, points, data)
	return append([]byte(header), content...)
}

// packed is LZF with the sizes before it, of literal bytes only.
func packed(raw []byte) []byte {
	var lzf []byte
	for rest := raw; len(rest) > 0; {
		n := min(len(rest), 32)
		lzf = append(append(lzf, byte(n-1)), rest[:n]...)
		rest = rest[n:]
	}
	return packedAs(lzf, len(raw))
}

func packedAs(lzf []byte, size int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(lzf)))
	return append(binary.LittleEndian.AppendUint32(b, uint32(size)), lzf...)
}

func openPCD(t testing.TB, file []byte, fields ...string) (*Dataset, error) {
	t.Helper()
	return Open(t.Context(), datatest.Folder(t, map[string][]byte{"a.pcd": file}), Options{Fields: fields})
}

// Two points with every type of number, in the three kinds of data.
func TestPCD(t *testing.T) {
	const (
		fields = "x _ i1 u1 y i2 u2 normal i4 u4 z i8 u8 d intensity"
		sizes  = "4 1 1 1 4 2 2 4 4 4 4 8 8 8 4"
		types  = "F U I U F I U F I U F I U F F"
		counts = "1 3 1 1 1 1 1 2 1 1 1 1 1 1 1"
	)
	// Points first, then fields first, as binary_compressed has them.
	type column struct{ of [2][]byte }
	var columns []column
	add := func(a, b any) {
		var c column
		for i, v := range []any{a, b} {
			var buf bytes.Buffer
			if err := binary.Write(&buf, binary.LittleEndian, v); err != nil {
				t.Fatal(err)
			}
			c.of[i] = buf.Bytes()
		}
		columns = append(columns, c)
	}
	add(float32(1.5), float32(-1.5))
	add([3]byte{1, 2, 3}, [3]byte{4, 5, 6})
	add(int8(-7), int8(7))
	add(uint8(200), uint8(3))
	add(float32(2.5), float32(math.NaN()))
	add(int16(-300), int16(300))
	add(uint16(60000), uint16(6))
	add([2]float32{0.25, 0.5}, [2]float32{-0.25, -0.5})
	add(int32(-100000), int32(5))
	add(uint32(4000000000), uint32(5))
	add(float32(3.5), float32(-3.5))
	add(int64(-5000000000), int64(5))
	add(uint64(1<<63), uint64(5))
	add(float64(0.1), float64(-1e10))
	add(float32(0.75), float32(1))
	var points, byField []byte
	for i := range 2 {
		for _, c := range columns {
			points = append(points, c.of[i]...)
		}
	}
	for _, c := range columns {
		byField = append(append(byField, c.of[0]...), c.of[1]...)
	}
	text := "1.5 1 2 3 -7 200 2.5 -300 60000 0.25 0.5 -100000 4000000000 3.5 -5000000000 9223372036854775808 0.1 0.75\r\n" +
		"\n -1.5 4 5 6 7 3\tnan 300 6 -0.25 -0.5 5 5 -3.5 5 5 -1e10 1" // blank line, blanks, a tab, no end
	all := strings.Fields("x i1 u1 y i2 u2 normal i4 u4 z i8 u8 d intensity")
	for _, file := range [][]byte{
		pcdFile("binary", fields, sizes, types, counts, 2, points),
		pcdFile("binary", fields, sizes, types, counts, 2, append(bytes.Clone(points), "\n"...)),
		pcdFile("binary_compressed", fields, sizes, types, counts, 2, packed(byField)),
		pcdFile("ascii", fields, sizes, types, counts, 2, []byte(text)),
	} {
		d, err := openPCD(t, file)
		if err != nil {
			t.Fatal(err)
		}
		nan := float32(math.NaN())
		if got, want := datatest.Samples(t, d)[0], datatest.Floats(1.5, 2.5, 3.5, 0.75, -1.5, nan, -3.5, 1); !bytes.Equal(got, want) || d.Spec().String() != "<=2x4 f32" {
			t.Errorf("%v: %v, want %v", d.Spec(), got, want)
		}
		if d, err = openPCD(t, file, all...); err != nil {
			t.Fatal(err)
		}
		want := datatest.Floats(1.5, -7, 200, 2.5, -300, 60000, 0.25, 0.5, -100000, 4e9, 3.5, -5e9, 1<<63, 0.1, 0.75,
			-1.5, 7, 3, nan, 300, 6, -0.25, -0.5, 5, 5, -3.5, 5, 5, -1e10, 1)
		if got := datatest.Samples(t, d)[0]; !bytes.Equal(got, want) {
			t.Errorf("%v: %v, want %v", d.Spec(), got, want)
		}
	}
}

func TestPCDHeaderSpelling(t *testing.T) {
	for _, version := range []string{".5", "0.5", ".6", ".7", "0.7"} {
		text := "VERSION " + version + "\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 1\nHEIGHT 1\nDATA ascii\n1 2 3\n"
		d, err := openPCD(t, []byte(text))
		if err != nil {
			t.Errorf("version %s: %v", version, err)
		} else if got := datatest.Samples(t, d); !bytes.Equal(got[0], datatest.Floats(1, 2, 3)) {
			t.Errorf("version %s: % x", version, got[0])
		}
	}
	long := "# " + strings.Repeat("x", 10000) + "\n\nVERSION .7\r\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 2\nHEIGHT 3\nDATA ascii\n" + strings.Repeat("1 2 3\n", 6)
	d, err := openPCD(t, []byte(long)) // no COUNT, no POINTS, CR LF, a header beyond the first read
	if err != nil {
		t.Fatal(err)
	}
	if got := datatest.Samples(t, d)[0]; !bytes.Equal(got, bytes.Repeat(datatest.Floats(1, 2, 3), 6)) {
		t.Error(got)
	}
	d, err = openPCD(t, pcdFile("ascii", "x y z", "4 4 4", "F F F", "1 1 1", 1, []byte("1 -nan nan\n"))) // as C prints them
	if err != nil {
		t.Fatal(err)
	}
	nan := float32(math.NaN())
	if got := datatest.Samples(t, d)[0]; !bytes.Equal(got, datatest.Floats(1, nan, nan)) {
		t.Error(got)
	}
	empty := datatest.Folder(t, map[string][]byte{"a.pcd": pcdFile("binary", "x y z", "4 4 4", "F F F", "1 1 1", 0, nil), "b.pcd": []byte(long)})
	if d, err = Open(t.Context(), empty, Options{}); err != nil || d.Length(0) != 0 || len(datatest.Samples(t, d)[0]) != 0 {
		t.Errorf("an empty cloud: %v", err)
	}
}

func TestPCDErrors(t *testing.T) {
	xyz := func(data string, points int, content string) []byte {
		return pcdFile(data, "x y z", "4 4 4", "F F F", "1 1 1", points, []byte(content))
	}
	good := string(xyz("ascii", 1, "1 2 3\n"))
	edit := func(old, new string) []byte {
		if !strings.Contains(good, old) {
			t.Fatal(old)
		}
		return []byte(strings.Replace(good, old, new, 1))
	}
	for _, c := range []struct {
		name string
		file []byte
		err  error
		text string
	}{
		{"empty", []byte{}, dataset.ErrFormat, `begins with ""`},
		{"text", []byte("x,y,z\n1,2,3\n"), dataset.ErrFormat, `a line "x,y,z"`},
		{"cut", []byte(good[:100]), dataset.ErrDamaged, "without a DATA line"},
		{"endless", []byte("VERSION 0.7\n" + strings.Repeat("#\n", maxPCDHeader)), dataset.ErrDamaged, "without a DATA line"},
		{"version", edit("VERSION 0.7", "VERSION 0.8"), dataset.ErrFormat, `version "0.8"`},
		{"twice", edit("HEIGHT 1", "HEIGHT 1\nHEIGHT 1"), dataset.ErrDamaged, "two lines HEIGHT"},
		{"sizes", edit("SIZE 4 4 4", "SIZE 4 4"), dataset.ErrDamaged, "3 FIELDS, 2 SIZE, 3 TYPE, 3 COUNT"},
		{"no sizes", edit("SIZE 4 4 4\n", ""), dataset.ErrDamaged, "0 SIZE"},
		{"type", edit("TYPE F F F", "TYPE F F X"), dataset.ErrFormat, `field "z" of TYPE "X"`},
		{"float of 2 bytes", edit("SIZE 4 4 4", "SIZE 4 2 4"), dataset.ErrFormat, `field "y" of TYPE "F" and SIZE "2"`},
		{"count", edit("COUNT 1 1 1", "COUNT 1 0 1"), dataset.ErrDamaged, `field "y" of COUNT "0"`},
		{"huge count", edit("COUNT 1 1 1", "COUNT 1 65535 1"), dataset.ErrTooLarge, "more than 65536 numbers"},
		{"points", edit("POINTS 1", "POINTS 2"), dataset.ErrDamaged, "POINTS"},
		{"no width", edit("WIDTH 1\n", ""), dataset.ErrDamaged, "WIDTH"},
		{"negative", edit("WIDTH 1", "WIDTH -1"), dataset.ErrDamaged, "WIDTH"},
		{"many", []byte(strings.ReplaceAll(strings.ReplaceAll(good, "HEIGHT 1", "HEIGHT 2"), "WIDTH 1", "WIDTH 2147483647")), dataset.ErrDamaged, "POINTS"},
		{"too many", []byte(strings.NewReplacer("HEIGHT 1", "HEIGHT 2147483647", "WIDTH 1", "WIDTH 2147483647", "POINTS 1\n", "").Replace(good)), dataset.ErrTooLarge, "4611686014132420609 points"},
		{"data", edit("DATA ascii", "DATA zip"), dataset.ErrFormat, `PCD data "zip"`},
		{"field", edit("FIELDS x y z", "FIELDS x y w"), dataset.ErrFormat, `no PCD field "z"; there are "x", "y", "w"`},
		{"short ascii", xyz("ascii", 1000, "1 2 3\n"), dataset.ErrDamaged, "6 bytes of PCD data (ascii), 1000 points need 5999"},
		{"short binary", xyz("binary", 2, "12345678901234567890123"), dataset.ErrDamaged, "23 bytes of PCD data (binary), 2 points need 24"},
		{"bomb", xyz("binary_compressed", 1e6, strings.Repeat("x", 1000)), dataset.ErrDamaged, "1000000 points need"},
	} {
		_, err := openPCD(t, c.file)
		testkit.WantError(t, c.name, err, c.err, c.text)
		testkit.WantError(t, c.name, err, c.err, "a.pcd: ")
	}
	lie := packed(make([]byte, 12))
	lie[4] = 13
	for _, c := range []struct {
		name string
		file []byte
		text string
	}{
		{"word", xyz("ascii", 2, "1 2 3\n1 2 x\n"), `point 1, number 2 of 3: "x" is not a number`},
		{"few numbers", xyz("ascii", 1, "1 2       "), `point 0, number 2 of 3: "" is not a number`},
		{"many numbers", xyz("ascii", 1, "1 2 3 4"), `point 0: "4" after its 3 numbers`},
		{"few points", xyz("ascii", 2, "1 2 3           "), "1 of 2 points"},
		{"size", xyz("binary_compressed", 1, string(lie)), "13 bytes of 13 decompress to 13, want 12"},
		{"packed size", xyz("binary_compressed", 1, string(lie[:12])), "13 bytes of 4"},
		{"LZF", xyz("binary_compressed", 1, string(packedAs([]byte{32, 0}, 12))), "LZF"},
	} {
		d, err := openPCD(t, c.file)
		if err != nil {
			t.Fatal(c.name, err)
		}
		r, _ := d.NewReader()
		testkit.WantError(t, c.name, r.Read(t.Context(), dataset.Visit{}, make([]byte, dataset.SampleBytes(d, 0))), dataset.ErrDamaged, c.text)
		r.Close()
	}
	d, err := openPCD(t, xyz("ascii", 1, "1 2 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, _ := d.NewReader()
	defer r.Close()
	if err := os.WriteFile(d.Name(0), xyz("ascii", 2, "1 2 3\n4 5 6\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	testkit.WantError(t, "changed", r.Read(t.Context(), dataset.Visit{}, make([]byte, 12)), dataset.ErrDamaged, "the file has changed: 2 points of 3 columns in 12 bytes")
	_, err = Open(t.Context(), filepath.Dir(d.Name(0)), Options{Fields: []string{}})
	testkit.WantError(t, "no fields", err, dataset.ErrArgument, "no fields")
	_, err = Open(t.Context(), filepath.Dir(d.Name(0)), Options{Fields: []string{"x"}, MaxBytes: 23})
	testkit.WantError(t, "limit", err, dataset.ErrTooLarge, "the limit is 23")
}

func TestLZF(t *testing.T) {
	// Made by hand from the format: literals "ab", 8 bytes from a distance of
	// 2, a literal, and 9+255 bytes of a distance of 1.
	lzf := []byte{1, 'a', 'b', 6 << 5, 1, 0, 'c', 7 << 5, 255, 0}
	want := "abababababc" + strings.Repeat("c", 264)
	dst := make([]byte, len(want))
	if err := unpackLZF(dst, lzf); err != nil || string(dst) != want {
		t.Errorf("%q, %v", dst, err)
	}
	for n := range len(lzf) {
		testkit.WantError(t, fmt.Sprint(n), unpackLZF(dst, lzf[:n]), dataset.ErrDamaged, "LZF")
	}
	for _, size := range []int{len(want) - 1, len(want) + 1, 1} {
		testkit.WantError(t, fmt.Sprint(size), unpackLZF(make([]byte, size), lzf), dataset.ErrDamaged, "LZF")
	}
	testkit.WantError(t, "before the first", unpackLZF(make([]byte, 4), []byte{0, 'a', 1 << 5, 1}), dataset.ErrDamaged, "3 bytes from -1")
}

// FuzzPCD: what is accepted has numbers that can be there, all fields of it
// can be read, and the text of those numbers reads the same.
func FuzzPCD(f *testing.F) {
	f.Add(pcdFile("binary", "x y z", "4 4 4", "F F F", "1 1 1", 1, make([]byte, 12)))
	f.Add(pcdFile("ascii", "x y z rgb", "4 4 4 4", "F F F U", "1 1 1 1", 2, []byte("1 2 3 4\n5 6 nan 8\n")))
	f.Add(pcdFile("binary_compressed", "x _ i", "8 1 2", "F U I", "1 3 2", 1, packed(make([]byte, 15))))
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := readPCDHeader(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			if !errors.Is(err, dataset.ErrFormat) && !errors.Is(err, dataset.ErrDamaged) && !errors.Is(err, dataset.ErrTooLarge) {
				t.Errorf("unknown kind of error: %v", err)
			}
			return
		}
		if h.stride < 1 || h.numbers < 1 || h.stride > 8*h.numbers || h.bytes > int64(len(file)) {
			t.Fatalf("%+v", h)
		}
		if h.points*h.numbers > 1<<20 {
			return // compressed
		}
		var names []string
		var distinct []pcdField
		for _, field := range h.fields {
			if !slices.Contains(names, field.name) {
				names = append(names, field.name)
				distinct = append(distinct, field)
			}
		}
		columns, err := h.pick(names)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, 4*len(columns)*h.points)
		if err := new(pcdDecoder).decode(dst, file, names); err != nil {
			if !errors.Is(err, dataset.ErrDamaged) {
				t.Errorf("unknown kind of error: %v", err)
			}
			return
		}
		// Once more, as text of those fields only.
		var fields, sizes, types, counts, text strings.Builder
		for _, field := range distinct {
			fmt.Fprint(&fields, field.name, " ")
			fmt.Fprint(&sizes, "4 ")
			fmt.Fprint(&types, "F ")
			fmt.Fprint(&counts, field.count, " ")
		}
		for i := 0; i < len(dst); i += 4 {
			v := math.Float32frombits(binary.LittleEndian.Uint32(dst[i:]))
			fmt.Fprint(&text, v, " ")
			if i/4%len(columns) == len(columns)-1 {
				text.WriteString("\n")
			}
			if v != v { // NaNs have many forms, text has one
				copy(dst[i:], datatest.Floats(float32(math.NaN())))
			}
		}
		again := make([]byte, len(dst))
		file = pcdFile("ascii", fields.String(), sizes.String(), types.String(), counts.String(), h.points, []byte(text.String()))
		if err := new(pcdDecoder).decode(again, file, names); err != nil || !bytes.Equal(dst, again) {
			t.Errorf("%v, read again %v, %v", dst, again, err)
		}
	})
}
