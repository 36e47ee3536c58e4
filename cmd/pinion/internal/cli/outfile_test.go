package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A writer that fails leaves nothing.
func TestFinishFile(t *testing.T) {
	dir := t.TempDir()
	f, err := CreateFile(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := FinishFile(f, func(w io.Writer) error { io.WriteString(w, "half"); return broken }); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("%v, %v are left", list, err)
	}
}

// "-" is not taken for a name: nobody means a file that is called so.
func TestNoFileNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := CreateFile("-"); err == nil || strings.Contains(err.Error(), "/dev/stdout") { // which is refused, too
		t.Errorf("CreateFile: %v", err)
	}
	if _, err := CreateLines("-"); err == nil || !strings.Contains(err.Error(), "/dev/stdout") {
		t.Errorf("CreateLines: %v", err)
	}
	if err := CheckFile("-"); err == nil {
		t.Error("CheckFile")
	}
	lines, err := CreateLines("./-")
	if err != nil {
		t.Fatal(err)
	}
	if err := lines.Close(true); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir("."); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}
