package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// fileOf makes a .safetensors file.
func fileOf(header string, data []byte) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), data...)
}

func entry(name, dtype, shape string, begin, end int) string {
	return fmt.Sprintf(`%q:{"dtype":%q,"shape":[%s],"data_offsets":[%d,%d]}`, name, dtype, shape, begin, end)
}

func read(file []byte) (*Header, error) { return ReadHeader(bytes.NewReader(file), int64(len(file))) }

func TestReadHeader(t *testing.T) {
	header := `{"__metadata__":{"format":"pt","\u00e4":"\ud83d\ude00"},` + entry("z", "F8_E4M3", "2", 14, 16) + "," + entry("y", "I32", "2,1", 6, 14) +
		"," + entry("none", "F32", "3,0", 6, 6) + "," + entry("x", "U8", "2,3", 0, 6) + `, "more" : { "shape":[], "later":[1,{"a":null}], "data_offsets" : [ 16 , 17 ], "dtype":"I8"} }  `
	h, err := read(fileOf(header, make([]byte, 17)))
	testkit.OK(t, err)
	start := int64(8 + len(header))
	want := []Tensor{
		{"x", U8, []int64{2, 3}, start, 6, nil},
		{"none", F32, []int64{3, 0}, start + 6, 0, nil},
		{"y", I32, []int64{2, 1}, start + 6, 8, nil},
		{"z", F8E4M3, []int64{2}, start + 14, 2, nil},
		{"more", I8, []int64{}, start + 16, 1, nil},
	}
	if fmt.Sprint(h.Tensors) != fmt.Sprint(want) || h.Bytes != start {
		t.Errorf("%v at %d, want %v", h.Tensors, h.Bytes, want)
	}
	if !maps.Equal(h.Metadata, map[string]string{"format": "pt", "ä": "😀"}) {
		t.Errorf("metadata %q", h.Metadata)
	}
	if y, ok := h.Find("y"); !ok || y.Offset != start+6 || y.Bytes != 8 || y.Elements() != 2 {
		t.Errorf("y is %+v, %v", y, ok)
	}
	if _, ok := h.Find("__metadata__"); ok {
		t.Error("the metadata are a tensor")
	}
}

func TestDTypes(t *testing.T) {
	for name, bits := range map[DType]int64{Bool: 8, F4: 4, F6E2M3: 6, F6E3M2: 6, U8: 8, I8: 8, F8E5M2: 8, F8E4M3: 8, F8E8M0: 8,
		F8E4M3FNUZ: 8, F8E5M2FNUZ: 8, I16: 16, U16: 16, F16: 16, BF16: 16, I32: 32, U32: 32, F32: 32, C64: 64, F64: 64, I64: 64, U64: 64, "F7": 0} {
		if name.Bits() != bits {
			t.Errorf("%s has %d bits, want %d", name, name.Bits(), bits)
		}
		if e, ok := name.Element(); ok && (int64(e.Size())*8 != bits || Of(e) != name || !strings.EqualFold(e.String(), string(name))) {
			t.Errorf("%s is %v, which is %s", name, e, Of(e))
		}
	}
	if Of(0) != "" || Of(dtype.BF16) != BF16 {
		t.Errorf("%q, %q", Of(0), Of(dtype.BF16))
	}
	// Packed types fill whole bytes.
	for shape, size := range map[string]int{"2": 1, "3,4": 6, "0": 0} {
		if _, err := read(fileOf("{"+entry("x", "F4", shape, 0, size)+"}", make([]byte, size))); err != nil {
			t.Errorf("F4 of shape %s: %v", shape, err)
		}
	}
}

// headerErrors are files of every malformed kind.
func headerErrors() []struct {
	name string
	file []byte
	kind error
	text string
} {
	good := fileOf("{"+entry("x", "U8", "2,2", 0, 4)+"}", []byte("abcd"))
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint64(huge, math.MaxUint64)
	with := func(header string) []byte { return fileOf(header, []byte("abcd")) }
	two := func(a, b string) []byte { return with("{" + a + "," + b + "}") }
	const most = "9223372036854775807"
	return []struct {
		name string
		file []byte
		kind error
		text string
	}{
		{"empty", nil, ErrFormat, "empty"},
		{"short", good[:8], ErrFormat, "begins with"},
		{"text", []byte("id,label\n1,2\n"), ErrFormat, `begins with "id,label\n"`},
		{"no header", make([]byte, 16), ErrFormat, "begins with"},
		{"blank first", with(" {}"), ErrFormat, "begins with"},
		{"array", with("[]"), ErrFormat, "begins with"},
		{"huge header", huge, ErrDamaged, "header of 18446744073709551615 bytes in a file of"},
		{"header beyond the file", good[:40], ErrDamaged, "in a file of 40"},
		{"cut short", good[:len(good)-1], ErrDamaged, "cut short: the tensors have 4 bytes, the file has 3 of them"},
		{"too long", append(bytes.Clone(good), 0), ErrDamaged, "1 byte behind the 4 of the tensors"},
		{"no end", with(`{"x":{"dtype":"U8"`), ErrDamaged, "header"},
		{"not closed", with(`{` + entry("x", "U8", "4", 0, 4)), ErrDamaged, "missing at the end"},
		{"no UTF-8", with("{\"\xff\":1}"), ErrDamaged, "UTF-8"},
		{"half a surrogate", with(`{"\ud800":1}`), ErrDamaged, `half of a surrogate pair, \ud800`},
		{"the other half", with(`{"\udC00":1}`), ErrDamaged, `half of a surrogate pair, \udC00`},
		{"two first halves", with(`{"\ud800\ud800\udc00":1}`), ErrDamaged, "surrogate"},
		{"more behind", with("{" + entry("x", "U8", "4", 0, 4) + "}{}"), ErrDamaged, "after the object"},
		{"zero behind", with("{" + entry("x", "U8", "4", 0, 4) + "}\x00"), ErrDamaged, "after the object"},
		{"comma behind", with("{" + entry("x", "U8", "4", 0, 4) + ",}"), ErrDamaged, "missing"},
		{"twice", two(entry("x", "U8", "2", 0, 2), entry("x", "U8", "2", 2, 4)), ErrDamaged, `"x" twice`},
		{"twice, escaped", two(entry("x", "U8", "2", 0, 2), strings.Replace(entry("x", "U8", "2", 2, 4), `"x"`, `"\u0078"`, 1)), ErrDamaged, `"x" twice`},
		{"metadata twice", two(`"__metadata__":{}`, `"__metadata__":{}`), ErrDamaged, `"__metadata__" twice`},
		{"metadata key twice", with(`{"__metadata__":{"a":"b","a":"c"}}`), ErrDamaged, `"a" twice`},
		{"metadata number", with(`{"__metadata__":{"x":1}}`), ErrDamaged, "__metadata__: \"x\": 1 is no string"},
		{"metadata null inside", with(`{"__metadata__":{"x":null}}`), ErrDamaged, "null is no string"},
		{"metadata array", with(`{"__metadata__":[]}`), ErrDamaged, "__metadata__"},
		{"overlap", two(entry("x", "U8", "3", 0, 3), entry("y", "U8", "2", 2, 4)), ErrDamaged, `"y" begins at 2, the tensor before it ends at 3`},
		{"hole", two(entry("x", "U8", "1", 0, 1), entry("y", "U8", "2", 2, 4)), ErrDamaged, `"y" begins at 2, the tensor before it ends at 1`},
		{"hole at the start", with("{" + entry("x", "U8", "3", 1, 4) + "}"), ErrDamaged, "begins at 1"},
		{"same", two(entry("x", "U8", "4", 0, 4), entry("y", "U8", "4", 0, 4)), ErrDamaged, "begins at 0, the tensor before it ends at 4"},
		{"backwards", with("{" + entry("x", "U8", "4", 4, 0) + "}"), ErrDamaged, "data_offsets: [4 0], not a start and an end"},
		{"negative", with("{" + entry("x", "U8", "4", -4, 0) + "}"), ErrDamaged, "-4 is no whole number"},
		{"one offset", with(`{"x":{"dtype":"U8","shape":[4],"data_offsets":[4]}}`), ErrDamaged, "data_offsets: [4], not"},
		{"three offsets", with(`{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4,4]}}`), ErrDamaged, "data_offsets: 3 numbers"},
		{"no array", with(`{"x":{"dtype":"U8","shape":4,"data_offsets":[0,4]}}`), ErrDamaged, "shape: 4 is no array"},
		{"null shape", with(`{"x":{"dtype":"U8","shape":null,"data_offsets":[0,4]}}`), ErrDamaged, "shape: null is no array"},
		{"nested shape", with(`{"x":{"dtype":"U8","shape":[[4]],"data_offsets":[0,4]}}`), ErrDamaged, "no whole number"},
		{"text in the shape", with(`{"x":{"dtype":"U8","shape":["4"],"data_offsets":[0,4]}}`), ErrDamaged, "no whole number"},
		{"fraction", with(`{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4.0]}}`), ErrDamaged, "4.0 is no whole number"},
		{"beyond int64", with(`{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,9223372036854775808]}}`), ErrDamaged, "9223372036854775808"},
		{"too many dimensions", with("{" + entry("x", "U8", "4"+strings.Repeat(",1", MaxRank), 0, 4) + "}"), ErrTooLarge, "shape: too large: 65 dimensions, the limit is 64"},
		{"no type", with(`{"x":{"shape":[4],"data_offsets":[0,4]}}`), ErrDamaged, "has no dtype"},
		{"nothing", with(`{"x":{}}`), ErrDamaged, "has no dtype and no shape and no data_offsets"},
		{"wrong case", with(`{"x":{"DType":"U8","shape":[4],"data_offsets":[0,4]}}`), ErrDamaged, "has no dtype"},
		{"type twice", with(`{"x":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}}`), ErrDamaged, "dtype twice"},
		{"null type", with(`{"x":{"dtype":null,"shape":[4],"data_offsets":[0,4]}}`), ErrDamaged, "null is no string"},
		{"unknown type", with("{" + entry("x", "U9", "4", 0, 4) + "}"), ErrFormat, `type "U9"`},
		{"lower case type", with("{" + entry("x", "u8", "4", 0, 4) + "}"), ErrFormat, `type "u8"`},
		{"size", with("{" + entry("x", "F32", "4", 0, 4) + "}"), ErrDamaged, "4 bytes, shape [4] and type F32 need 16"},
		{"half a byte", with("{" + entry("x", "F4", "7", 0, 4) + "}"), ErrDamaged, "28 bits"},
		{"negative size", with("{" + entry("x", "U8", "-2,-2", 0, 4) + "}"), ErrDamaged, "-2 is no whole number"},
		{"overflow", with("{" + entry("x", "U8", most+","+most, 0, 4) + "}"), ErrDamaged, "2^63-1 bits"},
		{"overflow to size", with("{" + entry("x", "U8", "4294967296,4294967296,4", 0, 4) + "}"), ErrDamaged, "2^63-1 bits"},
		{"overflow, then zero", with("{" + entry("x", "U8", most+","+most+",0", 0, 0) + "," + entry("y", "U8", "4", 0, 4) + "}"), ErrDamaged, "2^63-1 bits"},
		{"number", with(`{"x":1}`), ErrDamaged, `"x"`},
		{"null", with(`{"x":null}`), ErrDamaged, `"x"`},
	}
}

func TestHeaderErrors(t *testing.T) {
	for _, c := range headerErrors() {
		_, err := read(c.file)
		testkit.WantError(t, c.name, err, c.kind, c.text)
		path := testkit.WriteFile(t, c.file, t.TempDir(), "bad.safetensors")
		_, err = OpenFile(path)
		testkit.WantError(t, c.name, err, c.kind, c.text, path)
	}
	for _, c := range []string{
		"{}",
		"{}   \n",
		`{"__metadata__":null}`,
		`{"` + strings.Repeat("n", 100_000) + `":{"dtype":"U8","shape":[0,9223372036854775807],"data_offsets":[0,0]}}`,
	} {
		if _, err := read(fileOf(c, nil)); err != nil {
			t.Errorf("%.40s: %v", c, err)
		}
	}
}

// The limit is checked before memory is taken: these files have almost no bytes
// on the disk.
func TestHeaderLimit(t *testing.T) {
	path := testkit.WriteFile(t, fileOf("{", nil), t.TempDir(), "sparse")
	f := testkit.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer f.Close()
	testkit.OK(t, f.Truncate(1<<40))
	for length, kind := range map[uint64]error{MaxHeader + 1: ErrTooLarge, 1 << 41: ErrDamaged, math.MaxInt64: ErrDamaged, 1<<40 - 7: ErrDamaged} {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], length)
		_, err := f.WriteAt(b[:], 0)
		testkit.OK(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = ReadHeader(f, 1<<40)
		runtime.ReadMemStats(&after)
		testkit.WantError(t, fmt.Sprint(length), err, kind, "header of", fmt.Sprint(length))
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("a header of %d bytes took %d bytes of memory", length, n)
		}
	}
}

// A header takes memory in proportion to its length, whatever is in it.
func TestHeaderMemory(t *testing.T) {
	join := func(n int, entry func(i int) string) string {
		entries := make([]string, n)
		for i := range entries {
			entries[i] = entry(i)
		}
		return "{" + strings.Join(entries, ",") + "}"
	}
	shape := "0" + strings.Repeat(",1", MaxRank-1)
	for name, header := range map[string]string{
		"tensors":      join(20_000, func(i int) string { return entry(fmt.Sprint(i), "U8", "0", 0, 0) }),
		"shapes":       join(20_000, func(i int) string { return entry(fmt.Sprint(i), "U8", shape, 0, 0) }),
		"dimensions":   "{" + entry("x", "U8", "0"+strings.Repeat(",1", 500_000), 0, 0) + "}",
		"offsets":      `{"x":{"dtype":"U8","shape":[],"data_offsets":[0` + strings.Repeat(",1", 500_000) + `]}}`,
		"braces":       "{" + entry(strings.Repeat("{", 1_000_000), "U8", "0", 0, 0) + "}",
		"nested":       `{"x":{"y":` + strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000) + `}}`,
		"metadata":     `{"__metadata__":` + join(100_000, func(i int) string { return fmt.Sprintf(`"%d":""`, i) }) + `}`,
		"metadata key": `{"__metadata__":{` + strings.Repeat(`"a":"",`, 100_000) + `"b":""}}`,
	} {
		file := fileOf(header, nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := read(file)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 12*uint64(len(file)) {
			t.Errorf("%s: %d bytes of memory for a header of %d (%v)", name, n, len(file), err)
		}
	}
}

func TestOpenFile(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenFile(dir)
	testkit.WantError(t, "folder", err, ErrFormat, "not a regular file")
	_, err = OpenFile(filepath.Join(dir, "none"))
	testkit.WantError(t, "absent", err, os.ErrNotExist, "none")
	for text, says := range map[string]string{
		"": "not a safetensors file: empty",
		"version https://git-lfs.github.com/spec/v1\n":     "git lfs pull",
		"PK\x03\x04\x00\x00\x08\x08\x00\x00":               "pickled checkpoint",
		"GGUF\x03\x00\x00\x00\x00\x00":                     "llama.cpp",
		"<!DOCTYPE html><html>Not found</html>":            "web page",
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00": "not complete",
	} {
		_, err := OpenFile(testkit.WriteFile(t, text, dir, "other"))
		testkit.WantError(t, says, err, ErrFormat, says)
	}
	path := testkit.WriteFile(t, fileOf("{"+entry("x", "U8", "2", 0, 2)+","+entry("y", "U8", "2", 2, 4)+"}", []byte("abcd")), dir, "a")
	f := testkit.Must(OpenFile(path))(t)
	y, _ := f.Find("y")
	b := make([]byte, 2)
	if _, err := y.Data().ReadAt(b, 0); err != nil || string(b) != "cd" {
		t.Errorf("y is %q, %v", b, err)
	}
	if f.Path() != path || f.Size() != f.Bytes+4 {
		t.Errorf("%s of %d bytes", f.Path(), f.Size())
	}
	testkit.OK(t, f.Close())
	testkit.OK(t, f.Close())
}

// FuzzReadHeader: the tensors of an accepted file cover its data, their shapes
// and types say their sizes, and what is written of them is read as the same.
func FuzzReadHeader(f *testing.F) {
	f.Add(fileOf("{"+entry("x", "U8", "2,2", 0, 4)+"}", []byte("abcd")))
	f.Add(fileOf("{"+entry("x", "F32", "1", 0, 4)+","+entry("y", "I16", "2,0", 4, 4)+`,"__metadata__":{"a":"b"}} `, []byte("abcd")))
	for _, c := range headerErrors() {
		f.Add(c.file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := read(file)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("unknown kind of error: %v", err)
			}
			return
		}
		if !Sniff(file[:min(9, len(file))], int64(len(file))) {
			t.Error("accepted, and not recognised")
		}
		end := h.Bytes
		for i, x := range h.Tensors {
			if x.Offset != end || x.Elements()*x.DType.Bits() != 8*x.Bytes {
				t.Errorf("%+v begins at %d, want %d", x, x.Offset, end)
			}
			end += x.Bytes
			if found, ok := h.Find(x.Name); !ok || found.Offset != x.Offset {
				t.Errorf("tensor %d, %q, is not found", i, x.Name)
			}
		}
		if end != int64(len(file)) {
			t.Errorf("%d tensors end at %d of %d", len(h.Tensors), end, len(file))
		}
		ordered, err := prepare(h.Tensors)
		if err != nil {
			t.Fatal(err)
		}
		head, err := encode(ordered, h.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		again, err := read(append(head, file[h.Bytes:]...))
		if err != nil || len(again.Tensors) != len(h.Tensors) || !maps.Equal(again.Metadata, h.Metadata) {
			t.Fatalf("%s: %v", head, err)
		}
		for _, x := range h.Tensors {
			y, ok := again.Find(x.Name)
			if !ok || y.DType != x.DType || y.Bytes != x.Bytes || !slices.Equal(y.Shape, x.Shape) {
				t.Errorf("%+v became %+v", x, y)
			}
		}
	})
}
