package main

import (
	"errors"
	"io"
	"path/filepath"
	"testing"
)

// A writer that fails leaves nothing.
func TestFinishFile(t *testing.T) {
	dir := t.TempDir()
	f, err := createFile(filepath.Join(dir, "a"))
	ok(t, err)
	broken := errors.New("broken")
	if err := finishFile(f, func(w io.Writer) error { io.WriteString(w, "half"); return broken }); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	onlyFile(t, dir, "")
}
