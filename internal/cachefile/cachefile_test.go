package cachefile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestPath(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	a, err := Path("link", "a", "b")
	testkit.OK(t, err)
	for _, key := range [][]string{{"a"}, {"ab"}, {"a", "b", ""}} {
		b, err := Path("link", key...)
		testkit.OK(t, err)
		if a == b {
			t.Errorf("%q has the file of another key", key)
		}
	}
	if name := filepath.Base(a); !strings.HasPrefix(name, "link-") || filepath.Base(filepath.Dir(a)) != "pinion" {
		t.Errorf("%s", a)
	}
}

func TestWriteAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b.json")
	if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want %v", err, fs.ErrNotExist)
	}
	for _, v := range []int{1, 2} {
		testkit.OK(t, Write(path, map[string]int{"v": v}))
	}
	data, err := Read(path)
	testkit.OK(t, err)
	if string(data) != "{\n  \"v\": 2\n}\n" {
		t.Errorf("%q", data)
	}
	if err := Write(path, make(chan int)); err == nil {
		t.Error("a channel became JSON")
	}
	if err := Write(path, strings.Repeat("x", mostBytes-2)); err == nil || !strings.Contains(err.Error(), "1048577") {
		t.Errorf("what could not be read: %v", err)
	}
	// Nothing half written stays.
	list, err := os.ReadDir(filepath.Dir(path))
	testkit.OK(t, err)
	if len(list) != 1 {
		t.Errorf("%d files", len(list))
	}
	testkit.OK(t, os.WriteFile(path, bytes.Repeat([]byte(" "), mostBytes+1), 0o644))
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("a file that is too large: %v", err)
	}
}
