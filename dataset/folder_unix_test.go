//go:build unix

package dataset_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dataset/photos"
)

// TestFolderPipe: a pipe in the place of a file is an error, and nobody waits
// for its writer.
func TestFolderPipe(t *testing.T) {
	dir := datatest.Folder(t, map[string][]byte{"a/x.png": nil})
	d, err := dataset.OpenFolder(t.Context(), dir, dataset.FolderOptions{Extensions: photos.Extensions})
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
	if _, err := r.ReadFile(t.Context(), 0, nil); !errors.Is(err, dataset.ErrFormat) || !strings.Contains(err.Error(), d.Name(0)) {
		t.Errorf("a pipe: %v", err)
	}
	if _, err := dataset.OpenFolder(t.Context(), dir, dataset.FolderOptions{Extensions: photos.Extensions}); !errors.Is(err, dataset.ErrEmpty) || !strings.Contains(err.Error(), "none of 1 files") {
		t.Errorf("a folder with a pipe alone: %v", err)
	}
}
