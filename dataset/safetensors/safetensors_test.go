package safetensors

import (
	"bytes"
	"encoding/binary"
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
		{Options{Tensor: "other"}, dataset.ErrFormat, "type F8_E4M3"},
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

// What is wrong with a header is found by the format's own package; here are
// samples of it, and what makes a tensor no samples.
func TestSafeTensorsErrors(t *testing.T) {
	good := tensorsFile("{"+entryText("x", "U8", "2,2", 0, 4)+"}", []byte("abcd"))
	for _, c := range []struct {
		name string
		file []byte
		err  error
		text string
	}{
		{"empty", nil, dataset.ErrFormat, "empty"},
		{"text", []byte("id,label\n1,2\n"), dataset.ErrFormat, `begins with "id,label\n"`},
		{"cut short", good[:len(good)-1], dataset.ErrDamaged, "the tensors have 4 bytes, the file has 3 of them"},
		{"unknown type", tensorsFile("{"+entryText("x", "U9", "4", 0, 4)+"}", []byte("abcd")), dataset.ErrFormat, `type "U9"`},
		{"nothing", tensorsFile("{}", nil), dataset.ErrArgument, "There are none"},
		{"scalar", tensorsFile("{"+entryText("x", "U8", "", 0, 1)+"}", []byte("a")), dataset.ErrFormat, "scalar"},
		{"dimensions", tensorsFile("{"+entryText("x", "U8", "1"+strings.Repeat(",1", 64), 0, 1)+"}", []byte("a")), dataset.ErrTooLarge, "65 dimensions"},
	} {
		path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "bad"), c.file)
		_, err := Open(t.Context(), path, Options{})
		testkit.WantError(t, c.name, err, c.err, c.text)
		testkit.WantError(t, c.name, err, c.err, path)
	}
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
