package shard

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// writeAll writes samples with a Writer.
func writeAll(t testing.TB, dir string, opts WriterOptions, list []entry) {
	t.Helper()
	w, err := NewWriter(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(list); i += 2 {
		key, _, _ := SplitName(list[i].name)
		if err := w.Write(key, Part{"jpg", []byte(list[i].content)}, Part{"cls", []byte(list[i+1].content)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), w.Close(), w.Discard()); err != nil {
		t.Fatal(err)
	}
}

func TestWriter(t *testing.T) {
	const limit = 20_000
	dir, again := filepath.Join(t.TempDir(), "new", "shards"), t.TempDir()
	list := numbered(0, 100)
	opts := WriterOptions{Prefix: "train-", ShardBytes: limit}
	writeAll(t, dir, opts, list)
	writeAll(t, again, opts, list)
	var want []entry
	for i := 0; i < len(list); i += 2 {
		want = append(want, list[i])
	}
	s := open(t, dir, Options{NoCache: true})
	check(t, s, want)
	if len(s.shards) < 5 || !strings.HasPrefix(s.Name(0), filepath.Join(dir, "train-000000.tar")) {
		t.Errorf("%d shards from %s on", len(s.shards), s.Name(0))
	}
	for i, d := range s.shards {
		path := d.name
		one, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(filepath.Join(again, filepath.Base(path)))
		if err != nil || !bytes.Equal(one, other) {
			t.Errorf("%s: not the same bytes again: %v", path, err)
		}
		if len(one) > limit {
			t.Errorf("%s has %d bytes", path, len(one))
		}
		x, err := scanned(t, one, cls)
		if err != nil {
			t.Fatal(err)
		}
		beside, err := os.ReadFile(path + IndexSuffix)
		if err != nil || !bytes.Equal(beside, x.encode(cls.String())) {
			t.Errorf("the index of shard %d is another: %v", i, err)
		}
	}
}

func TestWriterErrors(t *testing.T) {
	parent := t.TempDir()
	full := filepath.Join(parent, "full")
	write(t, filepath.Join(full, "x"), nil)
	if _, err := NewWriter(full, WriterOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	for _, c := range []struct {
		opts WriterOptions
		says string
	}{
		{WriterOptions{ShardBytes: -1}, "-1 bytes"},
		{WriterOptions{Prefix: "a/b"}, `prefix "a/b"`},
		{WriterOptions{Prefix: ".x"}, `prefix ".x"`},
		{WriterOptions{Prefix: ".."}, `prefix ".."`},
	} {
		if _, err := NewWriter(filepath.Join(parent, "x"), c.opts); !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.opts, err)
		}
	}
	part := Part{"jpg", []byte("x")}
	for key, parts := range map[string][]Part{
		"a.b": {part}, "": {part}, "/a": {part}, "../a": {part}, "a//b": {part}, "__a__": {part}, "none": nil,
		"a": {part, part}, "b": {{"", nil}}, "c": {{"x/y", nil}}, strings.Repeat("x", 4093): {part}, "d": {{"cls", []byte("0.5")}},
	} {
		w, err := NewWriter(filepath.Join(parent, "y"), WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		err = w.Write(key, parts...)
		if err == nil { // what only the index shows
			err = w.Close()
		}
		if !errors.Is(err, ErrArgument) && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
			t.Errorf("%.20q: %v", key, err)
		}
		w.Close()
		if err := w.Write("z", part); err == nil {
			t.Error("written after Close")
		}
	}
	w, err := NewWriter(filepath.Join(parent, "z"), WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, ErrEmpty) {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(parent); len(entries) != 1 {
		t.Errorf("left are %v", entries)
	}
}

// TestWriterSampleLargerThanShard has a shard of its own.
func TestWriterSampleLargerThanShard(t *testing.T) {
	dir := t.TempDir()
	var list []entry
	for i := range 3 {
		list = append(list, entry{name: fmt.Sprintf("%d.jpg", i), content: strings.Repeat("x", 5000)}, entry{name: "x.cls", content: "1"})
	}
	writeAll(t, dir, WriterOptions{ShardBytes: 1000}, list)
	if s := open(t, dir, Options{NoCache: true}); len(s.shards) != 3 || s.Len() != 3 {
		t.Errorf("%d shards of %d samples", len(s.shards), s.Len())
	}
}

// TestWriterRemovesStaleDrafts: what a killed writer of the same folder left is
// removed, and what one that lives is writing is not.
func TestWriterRemovesStaleDrafts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("folders cannot be locked")
	}
	parent := t.TempDir()
	dir := filepath.Join(parent, "shards")
	stale := filepath.Join(parent, ".shards.part-123")
	if err := os.MkdirAll(stale, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stale, "train-000000.tar"), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	live, err := NewWriter(dir, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Discard()
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", stale, err)
	}
	other, err := NewWriter(dir, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Discard()
	if err := live.Write("1", Part{"jpg", []byte("abc")}); err != nil {
		t.Fatal(err)
	}
	if err := live.Close(); err != nil {
		t.Errorf("a writer that lived lost its draft: %v", err)
	}
}
