package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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

// tensorsFile makes a .safetensors file.
func tensorsFile(header string, data []byte) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), data...)
}

func entryText(name, dtype, shape string, begin, end int) string {
	return fmt.Sprintf(`%q:{"dtype":%q,"shape":[%s],"data_offsets":[%d,%d]}`, name, dtype, shape, begin, end)
}

func TestSafeTensors(t *testing.T) {
	data := []byte("ABCDEF\x01\x00\x00\x00\xff\xff\xff\xffxy")
	header := `{"__metadata__":{"format":"pt"},` + entryText("other", "F8_E4M3", "2", 14, 16) + "," + entryText("y", "I32", "2,1", 6, 14) +
		"," + entryText("none", "F32", "3,0", 6, 6) + "," + entryText("x", "U8", "2,3", 0, 6) + "}  "
	path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "a.safetensors"), tensorsFile(header, data))
	d, err := Open(t.Context(), path, Options{Tensor: "x", Label: "y"})
	if err != nil {
		t.Fatal(err)
	}
	samples, labels := datatest.ReadAll(t, d)
	if got := string(bytes.Join(samples, []byte("|"))); got != "ABC|DEF" || !slices.Equal(labels, []int32{1, -1}) {
		t.Errorf("%s, %v", got, labels)
	}
	if d.Spec().String() != "3 u8" || d.Name(1) != path+":x[1]" || !slices.Equal(d.Tensors(), []string{"none", "other", "x", "y"}) {
		t.Error(d.Spec(), d.Name(1), d.Tensors())
	}
	for _, c := range []struct {
		opts Options
		err  error
		text string
	}{
		{Options{}, dataset.ErrArgument, `which tensor holds the samples? There are "none", "other", "x", "y" (Tensor, --field)`},
		{Options{Tensor: "z"}, dataset.ErrArgument, `no tensor "z"; there are "none"`},
		{Options{Tensor: "x", Label: "z"}, dataset.ErrArgument, `no tensor "z"`},
		{Options{Tensor: "other"}, dataset.ErrFormat, `type "F8_E4M3"`},
		{Options{Tensor: "none"}, dataset.ErrEmpty, `shape [3 0]`},
		{Options{Tensor: "y", Label: "x"}, dataset.ErrArgument, `labels of shape [2 3] for 2`},
	} {
		_, err := Open(t.Context(), path, c.opts)
		testkit.WantError(t, fmt.Sprint(c.opts), err, c.err, c.text)
		testkit.WantError(t, fmt.Sprint(c.opts), err, c.err, path)
	}
	if runtime.GOOS != "windows" { // which does not cut a file that is open
		r, _ := d.NewReader()
		dst := make([]byte, 3)
		if err := os.Truncate(path, int64(8+len(header)+4)); err != nil {
			t.Fatal(err)
		}
		if err := r.Read(t.Context(), dataset.Visit{Index: 0}, dst); err != nil {
			t.Error(err)
		}
		testkit.WantError(t, "shrunk", r.Read(t.Context(), dataset.Visit{Index: 1}, dst), dataset.ErrDamaged, "x[1]: damaged: the file has shrunk: 1 of 3 bytes")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestSafeTensorsLabels(t *testing.T) {
	labels := func(dtype, shape string, data ...byte) ([]int32, error) {
		header := "{" + entryText("x", "U8", "2", 0, 2) + "," + entryText("y", dtype, shape, 2, 2+len(data)) + "}"
		path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "a"), tensorsFile(header, append([]byte("ab"), data...)))
		d, err := Open(t.Context(), path, Options{Label: "y"}) // x is the only other
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return []int32{d.Label(0), d.Label(1)}, nil
	}
	big := binary.LittleEndian.AppendUint64(make([]byte, 8), math.MaxInt32+1)
	for _, c := range []struct {
		dtype string
		data  []byte
		want  []int32
	}{
		{"U8", []byte{200, 1}, []int32{200, 1}},
		{"BOOL", []byte{0, 1}, []int32{0, 1}},
		{"I8", []byte{200, 1}, []int32{-56, 1}},
		{"U16", []byte{0, 1, 254, 255}, []int32{256, 65534}},
		{"I16", []byte{0, 1, 254, 255}, []int32{256, -2}},
		{"I32", []byte{0, 1, 0, 0, 254, 255, 255, 255}, []int32{256, -2}},
		{"I64", append(make([]byte, 8), 254, 255, 255, 255, 255, 255, 255, 255), []int32{0, -2}},
	} {
		if got, err := labels(c.dtype, "2", c.data...); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", c.dtype, got, err)
		}
	}
	_, err := labels("I64", "2", big...)
	testkit.WantError(t, "big", err, dataset.ErrFormat, "label 2147483648 of sample 1")
	_, err = labels("F16", "2", 0, 0, 0, 0)
	testkit.WantError(t, "floats", err, dataset.ErrFormat, "labels of type f16")
	_, err = labels("U8", "3", 0, 0, 0)
	testkit.WantError(t, "count", err, dataset.ErrArgument, "shape [3] for 2")
	_, err = labels("U8", "", 0)
	testkit.WantError(t, "scalar", err, dataset.ErrFormat, "scalar")
}

func TestSafeTensorsErrors(t *testing.T) {
	good := tensorsFile("{"+entryText("x", "U8", "2,2", 0, 4)+"}", []byte("abcd"))
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint64(huge, math.MaxUint64)
	with := func(header string) []byte { return tensorsFile(header, []byte("abcd")) }
	two := func(a, b string) []byte { return with("{" + a + "," + b + "}") }
	const most = "9223372036854775807"
	for _, c := range []struct {
		name string
		file []byte
		err  error
		text string
	}{
		{"empty", nil, dataset.ErrFormat, `begins with ""`},
		{"short", good[:8], dataset.ErrFormat, "begins with"},
		{"text", []byte("id,label\n1,2\n"), dataset.ErrFormat, `begins with "id,label\n"`},
		{"huge header", huge, dataset.ErrDamaged, "header of 18446744073709551615 bytes in a file of"},
		{"header beyond the limit", tensorsFile("{"+strings.Repeat(" ", maxHeader), nil), dataset.ErrTooLarge, "the limit is 16777216"},
		{"header beyond the file", good[:40], dataset.ErrDamaged, "in a file of 40"},
		{"cut short", good[:len(good)-1], dataset.ErrDamaged, "the tensors have 4 bytes, the file 3"},
		{"too long", append(bytes.Clone(good), 0), dataset.ErrDamaged, "the tensors have 4 bytes, the file 5"},
		{"no end", with(`{"x":{"dtype":"U8"`), dataset.ErrDamaged, "header"},
		{"not closed", with(`{` + entryText("x", "U8", "4", 0, 4)), dataset.ErrDamaged, "EOF"},
		{"no UTF-8", with("{\"\xff\":1}"), dataset.ErrDamaged, "UTF-8"},
		{"more behind", with("{" + entryText("x", "U8", "4", 0, 4) + "}{}"), dataset.ErrDamaged, "2 bytes after the object"},
		{"twice", two(entryText("x", "U8", "2", 0, 2), entryText("x", "U8", "2", 2, 4)), dataset.ErrDamaged, `"x" twice`},
		{"overlap", two(entryText("x", "U8", "3", 0, 3), entryText("y", "U8", "2", 2, 4)), dataset.ErrDamaged, `"y" begins at 2, the tensor before it ends at 3`},
		{"hole", two(entryText("x", "U8", "1", 0, 1), entryText("y", "U8", "2", 2, 4)), dataset.ErrDamaged, `"y" begins at 2, the tensor before it ends at 1`},
		{"same", two(entryText("x", "U8", "4", 0, 4), entryText("y", "U8", "4", 0, 4)), dataset.ErrDamaged, "begins at 0, the tensor before it ends at 4"},
		{"backwards", with("{" + entryText("x", "U8", "4", 4, 0) + "}"), dataset.ErrDamaged, "data_offsets [4 0]"},
		{"negative", with("{" + entryText("x", "U8", "4", -4, 0) + "}"), dataset.ErrDamaged, "data_offsets [-4 0]"},
		{"one offset", with(`{"x":{"dtype":"U8","shape":[4],"data_offsets":[4]}}`), dataset.ErrDamaged, "data_offsets [4]"},
		{"fraction", with(`{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4.5]}}`), dataset.ErrDamaged, "4.5"},
		{"beyond int64", with(`{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,9223372036854775808]}}`), dataset.ErrDamaged, "9223372036854775808"},
		{"no type", with(`{"x":{"shape":[4],"data_offsets":[0,4]}}`), dataset.ErrDamaged, `type ""`},
		{"dimensions", with("{" + entryText("x", "U8", "4"+strings.Repeat(",1", 64), 0, 4) + "}"), dataset.ErrDamaged, "65 dimensions"},
		{"size", with("{" + entryText("x", "F32", "4", 0, 4) + "}"), dataset.ErrDamaged, "4 bytes, shape [4] and type F32 need 16"},
		{"negative size", with("{" + entryText("x", "U8", "-2,-2", 0, 4) + "}"), dataset.ErrDamaged, "shape [-2 -2]"},
		{"overflow", with("{" + entryText("x", "U8", most+","+most, 0, 4) + "}"), dataset.ErrDamaged, "shape"},
		{"overflow to size", with("{" + entryText("x", "U8", "4294967296,4294967296,4", 0, 4) + "}"), dataset.ErrDamaged, "shape"},
		{"entry", with(`{"x":1}`), dataset.ErrDamaged, `"x"`},
		{"metadata", with(`{"__metadata__":{"x":1}}`), dataset.ErrDamaged, "__metadata__"},
		{"nothing", tensorsFile("{}", nil), dataset.ErrArgument, "There are none"},
		{"scalar", tensorsFile("{"+entryText("x", "U8", "", 0, 1)+"}", []byte("a")), dataset.ErrFormat, "scalar"},
	} {
		path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "bad"), c.file)
		_, err := Open(t.Context(), path, Options{})
		testkit.WantError(t, c.name, err, c.err, c.text)
		testkit.WantError(t, c.name, err, c.err, path)
	}
}

// FuzzSafeTensors: the tensors of an accepted file cover its data, and the
// header says the same when it is written again.
func FuzzSafeTensors(f *testing.F) {
	f.Add(tensorsFile("{"+entryText("x", "U8", "2,2", 0, 4)+"}", []byte("abcd")))
	f.Add(tensorsFile("{"+entryText("x", "F32", "1", 0, 4)+","+entryText("y", "I16", "2,0", 4, 4)+`,"__metadata__":{"a":"b"}} `, []byte("abcd")))
	f.Fuzz(func(t *testing.T, file []byte) {
		entries, start, err := readHeader(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			if !errors.Is(err, dataset.ErrFormat) && !errors.Is(err, dataset.ErrDamaged) && !errors.Is(err, dataset.ErrTooLarge) {
				t.Errorf("unknown kind of error: %v", err)
			}
			return
		}
		if !begins(file[:min(9, len(file))], int64(len(file))) {
			t.Error("accepted, and not recognised")
		}
		written := map[string]entry{}
		end := start
		for _, e := range entries {
			if start+e.Offsets[0] != end {
				t.Errorf("%+v begins at %d, want %d", e, start+e.Offsets[0], end)
			}
			end = start + e.Offsets[1]
			written[e.name] = e
			if n, spec, err := e.samples(); err == nil && int64(n)*int64(spec.Bytes()) != e.Offsets[1]-e.Offsets[0] {
				t.Errorf("%+v: %d samples of %v", e, n, spec)
			}
		}
		if end != int64(len(file)) || len(written) != len(entries) {
			t.Errorf("%d tensors end at %d of %d", len(written), end, len(file))
		}
		text, err := json.Marshal(written)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseHeader(text, int64(len(file))-start)
		if err != nil || len(again) != len(entries) {
			t.Errorf("%s: %v", text, err)
		}
	})
}

// TestUnsigned: U32 and U64 become I64.
func TestUnsigned(t *testing.T) {
	data := append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 3_000_000_000), 7), binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 5), 1<<63)...)
	header := "{" + entryText("a", "U32", "2", 0, 8) + "," + entryText("b", "U64", "2", 8, 24) + "}"
	path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "a.safetensors"), tensorsFile(header, data))
	d, err := Open(t.Context(), path, Options{Tensor: "a"})
	testkit.OK(t, err)
	want, _ := dataset.Bytes([]int64{3_000_000_000, 7})
	if got, _ := datatest.ReadAll(t, d); !bytes.Equal(bytes.Join(got, nil), want) || d.Spec().String() != "scalar i64" {
		t.Errorf("% x of %v", got, d.Spec())
	}
	testkit.OK(t, d.Close())
	_, err = Open(t.Context(), path, Options{Tensor: "a", Label: "b"})
	testkit.WantError(t, "label", err, dataset.ErrFormat, "9223372036854775808, which is too large")
	d, err = Open(t.Context(), path, Options{Tensor: "b", Label: "b"})
	if err == nil {
		t.Error(d.Close())
	}
}
