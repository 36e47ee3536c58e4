package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestFolder(t *testing.T) {
	parent := t.TempDir()
	path := filepath.Join(parent, "photos")
	for _, empty := range []bool{false, true} {
		if empty {
			testkit.OK(t, os.RemoveAll(path))
			testkit.OK(t, os.Mkdir(path, 0o755))
		}
		f := testkit.Must(CreateFolder(path))(t)
		testkit.WriteFile(t, "one", f.Path(), "a")
		testkit.OK(t, f.Commit())
		testkit.OK(t, f.Discard())
		holds(t, path, "a", "one")
	}

	f := testkit.Must(CreateFolder(path))(t)
	testkit.WriteFile(t, "two", f.Path(), "a")
	testkit.WantError(t, "something is there", f.Commit(), fs.ErrExist, path)
	holds(t, path, "a", "one")

	f = testkit.Must(CreateFolder(path))(t)
	testkit.WriteFile(t, "three", f.Path(), "b", "c")
	testkit.OK(t, f.Discard())
	if entries := testkit.Must(os.ReadDir(parent))(t); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
	_, err := CreateFolder(filepath.Join(parent, "none", "a"))
	testkit.WantError(t, "no parent", err, fs.ErrNotExist)
}

// A file that came meanwhile is not lost, a link is kept, and the working
// directory is not replaced.
func TestFolderInTheWay(t *testing.T) {
	parent := t.TempDir()
	path := filepath.Join(parent, "photos")
	f := testkit.Must(CreateFolder(path))(t)
	testkit.WriteFile(t, "mine", path)
	testkit.WantError(t, "a file is there", f.Commit(), fs.ErrExist, path)
	holds(t, parent, "photos", "mine")

	t.Chdir(t.TempDir())
	for _, path := range []string{"", ".", "a/.."} {
		_, err := CreateFolder(path)
		testkit.WantError(t, path, err, errs.ErrArgument, "the working directory")
	}

	if runtime.GOOS == "windows" {
		return // where links need a privilege
	}
	link := filepath.Join(parent, "link")
	for _, empty := range []bool{false, true} {
		testkit.OK(t, os.RemoveAll(path))
		if empty {
			testkit.OK(t, os.Mkdir(path, 0o755))
		}
		os.Remove(link)
		testkit.OK(t, os.Symlink("photos", link))
		f := testkit.Must(CreateFolder(link))(t)
		testkit.WriteFile(t, "one", f.Path(), "a")
		testkit.OK(t, f.Commit())
		holds(t, path, "a", "one")
		if to := testkit.Must(os.Readlink(link))(t); to != "photos" {
			t.Errorf("the link points to %s", to)
		}
	}
}

// What a killed process left is removed, and what a living one fills is not.
func TestStaleDrafts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("folders cannot be locked")
	}
	parent := t.TempDir()
	path := filepath.Join(parent, "photos")
	stale := filepath.Join(parent, ".photos.part-killed")
	testkit.WriteFile(t, "half", stale, "a")
	other := filepath.Join(parent, ".photos-2.part-other")
	testkit.WriteFile(t, "half", other, "a")
	first := testkit.Must(CreateFolder(path))(t)
	second := testkit.Must(CreateFolder(path))(t)
	for path, want := range map[string]bool{stale: false, other: true, first.Path(): true, second.Path(): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
	testkit.WriteFile(t, "first", first.Path(), "a")
	testkit.OK(t, first.Commit())
	testkit.WantError(t, "the first was faster", func() error {
		testkit.WriteFile(t, "second", second.Path(), "a")
		return second.Commit()
	}(), fs.ErrExist)
	holds(t, path, "a", "first")
}
