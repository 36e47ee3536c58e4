package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// Folder is a folder that is being filled. [Folder.Commit] puts it in its
// place; [Folder.Discard], which is to be deferred, removes it if that did not
// happen.
type Folder struct {
	path  string    // where it goes
	draft string    // where it is until then; "" when it is done
	lock  io.Closer // says that its process lives
}

// CreateFolder makes the draft of a folder that is to be at path. Drafts that
// killed processes left for the same path are removed, where the system tells
// them from those of processes that live (not on Windows). Where path is a
// symbolic link, the folder goes where it points to.
//
// It fails with [errs.ErrArgument] for the working directory and an empty path.
func CreateFolder(path string) (*Folder, error) {
	path, err := resolve(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	if path == "." {
		return nil, fmt.Errorf("%w: a new folder cannot take the place of the working directory", errs.ErrArgument)
	}
	parent, prefix := filepath.Dir(path), "."+filepath.Base(path)+".part-"
	removeStale(parent, prefix)
	for {
		draft := filepath.Join(parent, prefix+rand.Text())
		if err := os.Mkdir(draft, 0o777); err != nil {
			return nil, about(path, err)
		}
		lock, err := lockFolder(draft)
		if errors.Is(err, errors.ErrUnsupported) {
			lock, err = noLock{}, nil
		}
		if err == nil {
			return &Folder{path, draft, lock}, nil
		}
		os.Remove(draft)
		if !errors.Is(err, errLocked) && !errors.Is(err, fs.ErrNotExist) {
			return nil, about(path, err)
		}
		// Between the two calls another process took it for a stale one.
	}
}

// noLock is for systems, and file systems, that lock no folders.
type noLock struct{}

func (noLock) Close() error { return nil }

// Path is where the folder is until Commit: what is to be in it is written
// there.
func (f *Folder) Path() string { return f.draft }

// Commit puts the folder in its place, where an empty one may be, and makes the
// names in it and its own durable; that of the files' contents is theirs who
// wrote them. It fails with [fs.ErrExist] where something else is; the draft is
// then removed.
func (f *Folder) Commit() error {
	err := syncDir(f.draft)
	if err == nil {
		err = f.replace()
	}
	if err != nil {
		return errors.Join(about(f.path, err), f.Discard())
	}
	f.draft = ""
	return errors.Join(about(f.path, syncDir(filepath.Dir(f.path))), f.lock.Close())
}

// replace renames the draft. Renaming replaces an empty folder on some systems
// only.
func (f *Folder) replace() error {
	info, err := os.Lstat(f.path)
	if err == nil && info.IsDir() {
		err = os.Remove(f.path) // if it is empty
	}
	if _, there := os.Lstat(f.path); there == nil {
		return &fs.PathError{Op: "rename", Path: f.path, Err: fs.ErrExist}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(f.draft, f.path)
}

// Discard removes the draft with all that is in it. After Commit, and a second
// time, it does nothing.
func (f *Folder) Discard() error {
	if f.draft == "" {
		return nil
	}
	draft := f.draft
	f.draft = ""
	err := os.RemoveAll(draft)
	return errors.Join(err, f.lock.Close())
}

// removeStale removes the drafts in parent that no process holds, as far as it
// may.
func removeStale(parent, prefix string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		draft := filepath.Join(parent, e.Name())
		if lock, err := lockFolder(draft); err == nil {
			os.RemoveAll(draft)
			lock.Close()
		}
	}
}
