package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// someTensors are n tensors of any types and shapes, and their data.
func someTensors(r *rand.Rand, n int) ([]Tensor, map[string][]byte) {
	kinds := []DType{Bool, U8, F8E4M3, I16, F16, BF16, I32, F32, F64, I64, U64, C64}
	var tensors []Tensor
	data := map[string][]byte{}
	for i := range n {
		t := Tensor{Name: fmt.Sprintf("layers.%d.wäight \"%d\"", i/3, i), DType: kinds[r.IntN(len(kinds))]}
		for range r.IntN(4) {
			t.Shape = append(t.Shape, r.Int64N(7))
		}
		size, _ := sizeOf(t.DType, t.Shape)
		tensors = append(tensors, t)
		data[t.Name] = testkit.RandomBytes(int(size), uint64(i))
	}
	return tensors, data
}

// same compares a checkpoint with what was written.
func same(t *testing.T, ck *Checkpoint, tensors []Tensor, data map[string][]byte) {
	t.Helper()
	if len(ck.Tensors()) != len(tensors) {
		t.Errorf("%d tensors, want %d", len(ck.Tensors()), len(tensors))
	}
	total := int64(0)
	for _, want := range tensors {
		got, ok := ck.Find(want.Name)
		if !ok || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
			t.Fatalf("%+v became %+v", want, got)
		}
		b, err := io.ReadAll(got.Data())
		if err != nil || !bytes.Equal(b, data[want.Name]) {
			t.Fatalf("%q: other data, %v", want.Name, err)
		}
		total += got.Bytes
	}
	if ck.Bytes() != total {
		t.Errorf("%d bytes, want %d", ck.Bytes(), total)
	}
}

// What is written is read again, from one file and from shards of any size.
func TestWrite(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		tensors, data := someTensors(r, round*2)
		dir := t.TempDir()
		o := WriterOptions{ShardBytes: 1 + r.Int64N(3000), Metadata: map[string]string{"format": "pt", "a<b": "<&>\u2028"}}
		for _, path := range []string{filepath.Join(dir, "a.safetensors"), filepath.Join(dir, "folder")} {
			create := Create
			if strings.HasSuffix(path, "folder") {
				create = CreateFolder
			}
			w := testkit.Must(create(path, tensors, o))(t)
			var all sync.WaitGroup
			for _, x := range w.Tensors() {
				all.Go(func() {
					if x.Bytes == 0 {
						return // need not be written
					}
					if err := w.WriteFrom(x.Name, bytes.NewReader(data[x.Name])); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if _, err := os.Stat(path); err == nil {
				t.Error("it is there before Commit")
			}
			testkit.OK(t, w.Commit())
			testkit.OK(t, w.Discard())
			testkit.WantError(t, "second commit", w.Commit(), ErrClosed)
			ck := testkit.Must(Open(path))(t)
			same(t, ck, tensors, data)
			for _, f := range ck.Files() {
				if f.Header.Bytes%8 != 0 || !maps.Equal(f.Metadata, o.Metadata) {
					t.Errorf("%s: data at %d, metadata %q", f.Path(), f.Header.Bytes, f.Metadata)
				}
				for _, x := range f.Tensors {
					if size := x.DType.Bits() / 8; x.Offset%size != 0 {
						t.Errorf("%q of %s is at %d", x.Name, x.DType, x.Offset)
					}
				}
				if len(ck.Files()) > 1 && f.Size()-f.Header.Bytes > o.ShardBytes && len(f.Tensors) > 1 {
					t.Errorf("%s has %d bytes of tensors, more than %d", f.Path(), f.Size()-f.Header.Bytes, o.ShardBytes)
				}
			}
			testkit.OK(t, ck.Close())
		}
		left := testkit.Must(os.ReadDir(dir))(t)
		if len(left) != 2 {
			t.Errorf("%v is left", left)
		}
	}
}

func TestWriterErrors(t *testing.T) {
	dir := t.TempDir()
	path := testkit.WriteFile(t, "before", dir, "a.safetensors")
	x := Tensor{Name: "x", DType: U8, Shape: []int64{4}}
	for name, c := range map[string]struct {
		tensors []Tensor
		o       WriterOptions
		says    string
	}{
		"twice":    {[]Tensor{x, x}, WriterOptions{}, `two tensors have the name "x"`},
		"reserved": {[]Tensor{{Name: metadataKey, DType: U8}}, WriterOptions{}, "cannot have the name"},
		"UTF-8":    {[]Tensor{{Name: "\xff", DType: U8}}, WriterOptions{}, "cannot have the name"},
		"type":     {[]Tensor{{Name: "x", DType: "u8"}}, WriterOptions{}, `type "u8"`},
		"negative": {[]Tensor{{Name: "x", DType: U8, Shape: []int64{-1}}}, WriterOptions{}, "shape [-1]"},
		"overflow": {[]Tensor{{Name: "x", DType: U8, Shape: []int64{1 << 40, 1 << 40}}}, WriterOptions{}, "2^63-1 bits"},
		"rank":     {[]Tensor{{Name: "x", DType: U8, Shape: make([]int64, MaxRank+1)}}, WriterOptions{}, "65 dimensions, the limit is 64"},
		"metadata": {[]Tensor{x}, WriterOptions{Metadata: map[string]string{"\xff": ""}}, "UTF-8"},
	} {
		_, err := Create(path, c.tensors, c.o)
		testkit.WantError(t, name, err, ErrArgument, c.says, path)
		_, err = CreateFolder(filepath.Join(dir, "new"), c.tensors, c.o)
		testkit.WantError(t, name, err, ErrArgument, c.says, "new")
	}
	_, err := CreateFolder(filepath.Join(dir, "new"), nil, WriterOptions{ShardBytes: -1})
	testkit.WantError(t, "shards", err, ErrArgument, "shards of -1 bytes")

	_, err = CreateFolder(dir, []Tensor{x}, WriterOptions{})
	testkit.WantError(t, "folder that is not empty", err, fs.ErrExist, dir)
	_, err = CreateFolder(path, []Tensor{x}, WriterOptions{})
	testkit.WantError(t, "file", err, syscall.ENOTDIR, path)
	testkit.OK(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	empty := testkit.Must(CreateFolder(filepath.Join(dir, "empty"), nil, WriterOptions{}))(t)
	testkit.OK(t, empty.Commit())
	if ck := testkit.Must(Open(filepath.Join(dir, "empty")))(t); len(ck.Tensors()) != 0 || ck.Close() != nil {
		t.Error("a model of nothing has tensors")
	}
	testkit.OK(t, os.RemoveAll(filepath.Join(dir, "empty")))

	w := testkit.Must(Create(path, []Tensor{x, {Name: "y", DType: U8, Shape: []int64{2}}}, WriterOptions{}))(t)
	testkit.WantError(t, "length", w.Write("x", []byte("abc")), ErrArgument, "3 bytes, shape [4] and type U8 need 4")
	testkit.WantError(t, "end", w.WriteFrom("x", strings.NewReader("abc")), io.ErrUnexpectedEOF, "3 of 4 bytes")
	testkit.WantError(t, "name", w.Write("z", nil), ErrArgument, `no tensor "z"`)
	broken := errors.New("broken")
	testkit.WantError(t, "place", w.Place("x", func(*os.File, Tensor) error { return broken }), broken, `"x"`)
	testkit.OK(t, w.Write("x", []byte("abcd")))
	testkit.WantError(t, "again", w.Write("x", []byte("abcd")), ErrArgument, "written twice")
	testkit.WantError(t, "commit", w.Commit(), ErrArgument, `1 of 2 tensors are not written yet, the first is "y"`)
	testkit.OK(t, w.Place("y", func(*os.File, Tensor) error {
		testkit.WantError(t, "early", w.Commit(), ErrArgument, "1 write under way")
		return nil
	}))
	testkit.OK(t, w.Discard())
	testkit.WantError(t, "after", w.Write("y", []byte("ab")), ErrClosed)
	if text := testkit.ReadFile(t, path); text != "before" {
		t.Errorf("%q", text)
	}
	left := testkit.Must(os.ReadDir(dir))(t)
	if len(left) != 1 {
		t.Errorf("%v is left", left)
	}
}
