package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// A folder that is not there yet is as writable as the one above it, and nothing
// is left in it.
func TestWriteIn(t *testing.T) {
	dir := t.TempDir()
	testkit.OK(t, writeIn(dir))
	testkit.OK(t, writeIn(filepath.Join(dir, "a", "b")))
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("%v, %v are left", list, err)
	}
	file := testkit.WriteFile(t, "", dir, "file")
	if err := writeIn(file); err == nil || strings.Count(err.Error(), file) != 1 {
		t.Errorf("into a file: %v", err)
	}
}

// A file is read for the disk that is large enough, wherever below it lies.
func TestLargeFile(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, "small", dir, "a", "small")
	if name, err := largeFile(dir); name != "" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	large := testkit.WriteFile(t, "", dir, "b", "c", "large")
	testkit.OK(t, os.Truncate(large, enoughFile))
	if name, err := largeFile(dir); name != large || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	if name, err := largeFile(large); name != large || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	if _, err := largeFile(filepath.Join(dir, "nosuch")); err == nil {
		t.Error("there is no such folder")
	}
}

// This machine's own files are read without a word that is not text.
func TestThisSystem(t *testing.T) {
	m := newMachine(thisSystem(), Options{Device: "auto", Path: t.TempDir()})
	r, err := run(t.Context(), m, Checks(), nil)
	testkit.OK(t, err)
	for _, f := range r.Checks {
		complete(t, f)
	}
}
