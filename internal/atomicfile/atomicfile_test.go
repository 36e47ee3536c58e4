package atomicfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// holds checks that dir has exactly these files, whose contents follow their
// names.
func holds(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries := testkit.Must(os.ReadDir(dir))(t)
	if len(entries) != len(want)/2 {
		t.Errorf("%v, want %d", entries, len(want)/2)
	}
	for i := 0; i < len(want); i += 2 {
		if text := testkit.ReadFile(t, dir, want[i]); text != want[i+1] {
			t.Errorf("%s: %q, want %q", want[i], text, want[i+1])
		}
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	testkit.OK(t, WriteFile(path, []byte("one"), 0o640))
	holds(t, dir, "a", "one")
	testkit.OK(t, WriteFile(path, []byte("two"), 0o640))
	holds(t, dir, "a", "two")
}

func TestFailure(t *testing.T) {
	dir := t.TempDir()
	path := testkit.WriteFile(t, "old", dir, "a")
	err := Write(path, 0o644, func(w io.Writer) error {
		io.WriteString(w, "ne")
		return fs.ErrInvalid
	})
	testkit.WantError(t, "write", err, fs.ErrInvalid)
	holds(t, dir, "a", "old")

	func() {
		defer func() { recover() }()
		Write(path, 0o644, func(io.Writer) error { panic("no") })
	}()
	holds(t, dir, "a", "old")

	f := testkit.Must(Create(path, 0o644))(t)
	testkit.OK(t, f.Discard())
	testkit.OK(t, f.Discard())
	holds(t, dir, "a", "old")

	err = WriteFile(filepath.Join(dir, "none", "b"), nil, 0o644)
	testkit.WantError(t, "no folder", err, fs.ErrNotExist, filepath.Join("none", "b"))
	if strings.Contains(err.Error(), ".pinion-") {
		t.Errorf("%v names the draft", err)
	}
}

// A folder in the way of the renaming: the draft goes, and the error names the
// place.
func TestCommitFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, commit := range []func(*File) error{(*File).Commit, (*File).CommitUnsynced} {
		f := testkit.Must(Create(path, 0o644))(t)
		testkit.WriteFile(t, "in the way", path, "b")
		if err := commit(f); err == nil || strings.Contains(err.Error(), ".pinion-") || !strings.Contains(err.Error(), path) {
			t.Errorf("%v", err)
		}
		if entries := testkit.Must(os.ReadDir(dir))(t); len(entries) != 1 {
			t.Errorf("%v", entries)
		}
		testkit.OK(t, os.RemoveAll(path))
	}
}

func TestMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permissions")
	}
	dir := t.TempDir()
	for _, mode := range []fs.FileMode{0o600, 0o664, 0o755} {
		path := testkit.WriteFile(t, "old", dir, "a")
		testkit.OK(t, os.Chmod(path, mode))
		testkit.OK(t, WriteFile(path, []byte("new"), 0o644))
		if info := testkit.Must(os.Stat(path))(t); info.Mode() != mode {
			t.Errorf("%v became %v", mode, info.Mode())
		}
	}
	path := filepath.Join(dir, "new")
	testkit.OK(t, WriteFile(path, nil, 0o600))
	if info := testkit.Must(os.Stat(path))(t); info.Mode() != 0o600 {
		t.Errorf("a new file has %v", info.Mode())
	}
}

func TestLinks(t *testing.T) {
	dir := testkit.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	real := filepath.Join(dir, "real")
	links := filepath.Join(dir, "links")
	testkit.WriteFile(t, "old", real, "file")
	testkit.OK(t, os.Mkdir(links, 0o755))
	link := func(target, name string) string {
		path := filepath.Join(links, name)
		if err := os.Symlink(target, path); err != nil {
			t.Skip(err)
		}
		return path
	}
	link(filepath.Join(real, "file"), "absolute")
	link("absolute", "chain")
	link("../real/new", "dangling")
	link("../real", "folder")
	for _, name := range []string{"absolute", "chain", "dangling", filepath.Join("folder", "file")} {
		testkit.OK(t, WriteFile(filepath.Join(links, name), []byte(name), 0o644))
		if text := testkit.ReadFile(t, links, name); text != name {
			t.Errorf("%s: %q", name, text)
		}
	}
	holds(t, real, "file", filepath.Join("folder", "file"), "new", "dangling")
}

func TestLoop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.Symlink("a", path); err != nil {
		t.Skip(err)
	}
	testkit.WantError(t, "loop", WriteFile(path, nil, 0o644), errs.ErrArgument, "40 symbolic links")
}

func TestNotAFile(t *testing.T) {
	dir := t.TempDir()
	testkit.WantError(t, "folder", WriteFile(dir, nil, 0o644), errs.ErrArgument, dir, "a folder")
	if runtime.GOOS != "windows" {
		testkit.WantError(t, "device", WriteFile(os.DevNull, nil, 0o644), errs.ErrArgument, "a device")
	}
	if runtime.GOOS == "linux" { // as /dev/stdout is of a program in a pipeline
		r, w, err := os.Pipe()
		testkit.OK(t, err)
		defer r.Close()
		defer w.Close()
		link := filepath.Join(dir, "stdout")
		testkit.OK(t, os.Symlink(fmt.Sprintf("/proc/self/fd/%d", w.Fd()), link))
		testkit.WantError(t, "link to a pipe", WriteFile(link, nil, 0o644), errs.ErrArgument, link, "a named pipe")
	}
}

// drafts makes files in both ways.
func drafts(t *testing.T, test func(t *testing.T, create func(path string, perm fs.FileMode) (*File, error))) {
	t.Run("unnamed", func(t *testing.T) { test(t, Create) })
	t.Run("named", func(t *testing.T) {
		test(t, func(path string, perm fs.FileMode) (*File, error) { return create(path, perm, true) })
	})
}

func TestDrafts(t *testing.T) {
	drafts(t, func(t *testing.T, create func(path string, perm fs.FileMode) (*File, error)) {
		for _, commit := range []func(*File) error{(*File).Commit, (*File).CommitUnsynced} {
			dir := t.TempDir()
			path := filepath.Join(dir, "a")
			for _, text := range []string{"new", "replaced"} {
				f := testkit.Must(create(path, 0o600))(t)
				testkit.Must(f.WriteString("dropped"))(t)
				testkit.OK(t, f.Discard())
				testkit.OK(t, f.Discard())

				f = testkit.Must(create(path, 0o600))(t)
				testkit.Must(f.WriteString(text))(t)
				testkit.OK(t, commit(f))
				testkit.OK(t, f.Discard())
				holds(t, dir, "a", text)
				if info := testkit.Must(os.Stat(path))(t); info.Mode() != 0o600 && runtime.GOOS != "windows" {
					t.Errorf("%v", info.Mode())
				}
			}
			// Whoever is last wins, also where there was nothing at first.
			testkit.OK(t, os.Remove(path))
			first, second := testkit.Must(create(path, 0o600))(t), testkit.Must(create(path, 0o600))(t)
			testkit.Must(first.WriteString("first"))(t)
			testkit.OK(t, commit(second))
			testkit.OK(t, commit(first))
			holds(t, dir, "a", "first")
		}
	})
}

// A closed file cannot be committed, and what was there stays.
func TestClosed(t *testing.T) {
	drafts(t, func(t *testing.T, create func(path string, perm fs.FileMode) (*File, error)) {
		dir := t.TempDir()
		path := testkit.WriteFile(t, "old", dir, "a")
		for _, commit := range []func(*File) error{(*File).Commit, (*File).CommitUnsynced} {
			f := testkit.Must(create(path, 0o644))(t)
			testkit.OK(t, f.Close())
			testkit.WantError(t, "closed", commit(f), fs.ErrClosed, path)
			holds(t, dir, "a", "old")
		}
	})
}
