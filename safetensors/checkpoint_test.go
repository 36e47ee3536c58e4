package safetensors

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// one is a file with one tensor of two bytes.
func one(name string) string {
	return string(fileOf("{"+entry(name, "U8", "2", 0, 2)+"}", []byte("ab")))
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, one("a"), dir, "x", "model-00001-of-00002.safetensors")
	testkit.WriteFile(t, one("b"), dir, "x", "sub", "second.safetensors")
	index := testkit.WriteFile(t, `{"metadata":{"total_size":4,"more":[1.5]},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"sub/second.safetensors"}}`, dir, "x", "my.safetensors.index.json")
	single := testkit.WriteFile(t, one("c"), dir, "y", "anything.safetensors")
	testkit.WriteFile(t, one("d"), dir, "z", "model.safetensors")
	testkit.WriteFile(t, one("e"), dir, "z", "other.safetensors")
	testkit.WriteFile(t, one("e"), dir, "w", "one.safetensors")
	testkit.WriteFile(t, one("f"), dir, "w", "two.safetensors")
	testkit.WriteFile(t, "", dir, "empty", "readme")
	for _, c := range []struct {
		paths []string
		names string // or the error
		kind  error
	}{
		{[]string{index}, "a b", nil},
		{[]string{dir + "/x"}, "a b", nil},
		{[]string{dir + "/y"}, "c", nil},
		{[]string{single}, "c", nil},
		{[]string{dir + "/z"}, "d", nil},
		{[]string{dir + "/z", single, dir + "/x"}, "d c a b", nil},
		{nil, "no checkpoint named", ErrArgument},
		{[]string{dir + "/w"}, "2 files end in .safetensors, and none is model.safetensors", ErrFormat},
		{[]string{dir + "/empty"}, "no .safetensors file and no index in the folder", ErrFormat},
		{[]string{dir + "/none"}, "none", fs.ErrNotExist},
		{[]string{single, dir + "/y"}, `"c" is also in ` + single, ErrDamaged},
		{[]string{dir + "/empty/readme"}, "not a safetensors file", ErrFormat},
	} {
		ck, err := Open(c.paths...)
		if c.kind != nil {
			testkit.WantError(t, strings.Join(c.paths, " "), err, c.kind, c.names)
			continue
		}
		testkit.OK(t, err)
		var names []string
		for _, x := range ck.Tensors() {
			names = append(names, x.Name)
		}
		if got := strings.Join(names, " "); got != c.names || ck.Bytes() != int64(2*len(names)) {
			t.Errorf("%v has %s", c.paths, got)
		}
		testkit.OK(t, ck.Close())
		testkit.OK(t, ck.Close())
	}
}

func TestIndexErrors(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, one("a"), dir, "1.safetensors")
	testkit.WriteFile(t, "nothing", dir, "bad.safetensors")
	for _, c := range []struct {
		name, text string
		kind       error
		says       string
	}{
		{"missing shard", `{"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"2.safetensors"}}`, fs.ErrNotExist, "missing shards: 1 of 2, with 2 of 3 tensors; the first is 2.safetensors"},
		{"missing shard", `{"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"2.safetensors"}}`, fs.ErrNotExist, "the first is 2.safetensors: file does not exist"},
		{"missing shards", `{"weight_map":{"a":"1.safetensors","b":"3.safetensors","c":"2.safetensors"}}`, fs.ErrNotExist, "missing shards: 2 of 3, with 2 of 3 tensors; the first is 2.safetensors"},
		{"bad shard", `{"weight_map":{"a":"bad.safetensors"}}`, ErrFormat, "bad.safetensors: format not supported: not a safetensors file"},
		{"missing tensor", `{"weight_map":{"a":"1.safetensors","z":"1.safetensors","b":"1.safetensors"}}`, ErrDamaged, `"b" is not in 1.safetensors, where the index says it is; 1 of 3`},
		{"outside", `{"weight_map":{"a":"../1.safetensors"}}`, ErrDamaged, "no file below the index"},
		{"absolute", `{"weight_map":{"a":"/1.safetensors"}}`, ErrDamaged, "no file below the index"},
		{"control character", `{"weight_map":{"a":"\u001b[31m1.safetensors"}}`, ErrDamaged, `"\x1b[31m1.safetensors", which is no file`},
		{"empty name", `{"weight_map":{"a":""}}`, ErrDamaged, "no file below the index"},
		{"twice", `{"weight_map":{"a":"1.safetensors","a":"1.safetensors"}}`, ErrDamaged, `"a" twice`},
		{"map twice", `{"weight_map":{},"weight_map":{}}`, ErrDamaged, `"weight_map" twice`},
		{"number", `{"weight_map":{"a":1}}`, ErrDamaged, "1 is no string"},
		{"no map", `{"metadata":{}}`, ErrFormat, "this has none"},
		{"cut short", `{"weight_map":{"a":"1.safe`, ErrDamaged, "index"},
		{"array", `[]`, ErrDamaged, "index"},
		{"empty", ``, ErrDamaged, "index"},
		{"UTF-8", "{\"weight_map\":{\"\xff\":\"a\"}}", ErrDamaged, "UTF-8"},
	} {
		path := testkit.WriteFile(t, c.text, dir, "model.safetensors.index.json")
		_, err := Open(path)
		testkit.WantError(t, c.name, err, c.kind, c.says, path)
	}
	path := filepath.Join(dir, "large.json")
	testkit.WriteFile(t, "{", path)
	testkit.OK(t, os.Truncate(path, MaxHeader+2))
	_, err := Open(path)
	testkit.WantError(t, "large", err, ErrTooLarge, "more than 100000000 bytes")
	_, err = ReadIndex(dir)
	testkit.WantError(t, "folder", err, ErrFormat, "not a regular file")
}

func TestIndex(t *testing.T) {
	x, err := ParseIndex([]byte(`{"metadata":{"total_size":1e300},"weight_map":{"a":"2","b":"1","c":"2"},"more":null}`))
	testkit.OK(t, err)
	if x.TotalBytes != 0 || !slices.Equal(x.Names(), []string{"1", "2"}) {
		t.Errorf("%+v, %q", x, x.Names())
	}
	alias, err := ParseIndex([]byte(`{"weight_map":{"a":"m","b":"./m","c":"sub/..//m"}}`))
	testkit.OK(t, err)
	if !slices.Equal(alias.Names(), []string{"m"}) {
		t.Errorf("one file by three names is %q", alias.Names())
	}
	x.TotalBytes = 77
	path := filepath.Join(t.TempDir(), "index.json")
	testkit.OK(t, x.Write(path))
	again := testkit.Must(ReadIndex(path))(t)
	if again.TotalBytes != 77 || len(again.Files) != 3 || again.Files["c"] != "2" {
		t.Errorf("%+v", again)
	}
}

// FuzzIndex: an accepted index names files below it, and is the same when it
// is written again.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":4},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"sub/x"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x"}}`))
	f.Add([]byte(`{"weight_map":{"a":"x","a":"y"}}`))
	f.Add([]byte(`{"metadata":null,"weight_map":{"\ud800":"x"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := ParseIndex(text)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrDamaged) {
				t.Errorf("unknown kind of error: %v", err)
			}
			return
		}
		for _, name := range x.Names() {
			if !filepath.IsLocal(name) {
				t.Errorf("accepted a file %q", name)
			}
		}
		var b strings.Builder
		testkit.OK(t, x.write(&b))
		again, err := ParseIndex([]byte(b.String()))
		if err != nil || again.TotalBytes != x.TotalBytes || len(again.Files) != len(x.Files) {
			t.Fatalf("%s: %v", b.String(), err)
		}
		for tensor, file := range x.Files {
			if again.Files[tensor] != file {
				t.Errorf("%q in %q became %q", tensor, file, again.Files[tensor])
			}
		}
	})
}
