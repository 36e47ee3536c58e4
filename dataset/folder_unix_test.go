//go:build unix

package dataset

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestFolderPipe: a pipe in the place of a file is an error, and nobody waits
// for its writer.
func TestFolderPipe(t *testing.T) {
	dir := folder(t, map[string][]byte{"a/x.png": nil})
	d, err := OpenFolder(t.Context(), dir, FolderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.Name(0)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(d.Name(0), 0o644); err != nil {
		t.Skip("no pipes here: ", err)
	}
	r, err := d.NewFileReader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.ReadFile(t.Context(), 0, nil); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), d.Name(0)) {
		t.Errorf("a pipe: %v", err)
	}
	if _, err := OpenFolder(t.Context(), dir, FolderOptions{}); !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), "none of 1 files") {
		t.Errorf("a folder with a pipe alone: %v", err)
	}
}
