package all_test

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestHints: what is nearly a dataset gives an error that says what to do.
func TestHints(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ content, text string }{
		"one.png":       {"\x89PNG\r\n\x1a\n", "pictures are read from a folder: open " + strconv.Quote(dir)},
		"one.bin":       {"\x00\x00\x80?", "point clouds are read from a folder: open " + strconv.Quote(dir)},
		"head.nii":      {"\x5c\x01\x00\x00", "not a NIfTI-1 or NIfTI-2 file"},
		"list.json":     {`[{"x":[1,2]},{"x":[3,4]}]`, "one JSON document"},
		"pretty.json":   {"[\n  {\n    \"x\": 1\n  }\n]\n", "one JSON document"},
		"object":        {"{\n  \"x\": [1, 2]\n}\n", "one JSON document"},
		"broken.jsonl":  {"{\"x\":1,}\n{\"x\":2}\n", ":1: format not supported: not JSON"},
		"shard.tar.xz":  {"\xfd7zXZ\x00\x00\x04", "compressed with xz, not with gzip or Zstandard; pipe it in: xz -dc "},
		"shard.tar.bz2": {"BZh91AY&SY", "compressed with bzip2"},
		"a.npy.gz":      {"\x1f\x8b\b\b\x15\xe3\x03k", "decompress it with gzip -d"},
		"a.csv.zst":     {"\x28\xb5\x2f\xfd\x04\x00", "decompress it with zstd -d"},
	} {
		path := datatest.WriteFile(t, filepath.Join(dir, name), []byte(c.content))
		_, err := dataset.Open(t.Context(), path, nil)
		testkit.WantError(t, name, err, dataset.ErrFormat, c.text)
	}
	_, err := dataset.Open(t.Context(), datatest.WriteFile(t, filepath.Join(dir, "nothing"), nil), nil)
	testkit.WantError(t, "an empty file", err, dataset.ErrEmpty, "a file of no bytes")
	folder := datatest.Folder(t, map[string][]byte{"readme": []byte("hello"), "train.jsonl": []byte("[1]\n")})
	_, err = dataset.Open(t.Context(), folder, nil)
	testkit.WantError(t, "a folder of others", err, dataset.ErrEmpty, "; "+filepath.Join(folder, "train.jsonl")+" is a dataset of its own (JSON lines): open that")
	folder = datatest.Folder(t, map[string][]byte{"a.txt": []byte("hello"), "b.csv": []byte("x,class\n1,cat\n"), "readme": nil})
	_, err = dataset.Open(t.Context(), folder, nil)
	testkit.WantError(t, "a folder with a table", err, dataset.ErrEmpty, filepath.Join(folder, "b.csv")+" is a dataset of its own (CSV)")
	datatest.Link(t, "gone", filepath.Join(dir, "dangling.npy"))
	_, err = dataset.Open(t.Context(), filepath.Join(dir, "dangling.npy"), nil)
	testkit.WantError(t, "a link", err, fs.ErrNotExist)
	if strings.Contains(err.Error(), "there is") {
		t.Errorf("a link that leads nowhere: %v", err)
	}
	// Bare samples are read whatever the name says.
	_, err = dataset.Open(t.Context(), filepath.Join(dir, "one.bin"), dataset.Options{"raw": "1,f32"})
	testkit.OK(t, err)
}
