// Package atomicfile writes files and folders that are there as a whole or not
// at all. They are written beside their place and put there when they are
// complete.
//
// On Linux a file has no name until then, where the file system allows that, so
// that a process that is killed leaves nothing behind. Elsewhere a file, like
// every folder, has a hidden name and is renamed.
//
// (github.com/google/renameio does the same for files, but always under a name
// and not on Windows.)
package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// File is a file that is being written. [File.Commit] puts it in its place;
// [File.Discard], which is to be deferred, removes it if that did not happen.
// Both close it; nobody else may.
type File struct {
	*os.File
	path  string // where it goes
	draft string // its name until then; "" where it has none
	done  bool
}

// Create makes the draft of a file that is to be at path, for reading and
// writing. A file that is there keeps its permissions, and stays as it is until
// Commit; a new one has those of perm that the umask leaves. Where path is a
// symbolic link, the file that it points to is replaced, not the link.
//
// It fails with [errs.ErrArgument] where something other than a file is at
// path, such as a folder, a device or a pipe.
func Create(path string, perm fs.FileMode) (*File, error) { return create(path, perm, false) }

// create is Create of a draft that has a name, or need not have one.
func create(path string, perm fs.FileMode, named bool) (*File, error) {
	// A link to a pipe, as /dev/stdout may be, has a name in it that leads nowhere.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, notAFile(path, info)
	}
	target, err := resolve(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(target)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return nil, notAFile(path, info)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f := &File{path: target}
	if !named {
		f.File, err = openUnnamed(target, perm)
	}
	if named || err != nil {
		f.draft = draftName(target)
		if f.File, err = os.OpenFile(f.draft, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm); err != nil {
			return nil, about(path, err)
		}
	}
	if info != nil {
		if err := f.Chmod(info.Mode().Perm()); err != nil && runtime.GOOS != "windows" {
			return nil, errors.Join(about(path, err), f.Discard())
		}
	}
	return f, nil
}

// draftName is a new hidden name beside path.
func draftName(path string) string { return filepath.Join(filepath.Dir(path), ".pinion-"+rand.Text()) }

// Commit writes the file to the disk, closes it and puts it in its place. When
// Commit returns, it is there even if the machine loses power. After an error
// what was at path is still there, and the draft is removed.
func (f *File) Commit() error {
	err := about(f.path, f.Sync())
	if err == nil {
		err = f.CommitUnsynced()
	}
	if err != nil {
		return errors.Join(err, f.Discard())
	}
	return about(f.path, syncDir(filepath.Dir(f.path)))
}

// CommitUnsynced is [File.Commit] for files that can be made again: it does not
// wait for the disk, and after a loss of power the file may be empty.
func (f *File) CommitUnsynced() error {
	if err := f.publish(); err != nil {
		return errors.Join(about(f.path, err), f.Discard())
	}
	f.done = true
	return nil
}

// publish puts the draft in its place and closes it.
func (f *File) publish() error {
	if f.draft == "" {
		err := link(f.File, f.path)
		if err == nil {
			return f.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		// A link replaces nothing, renaming does.
		draft := draftName(f.path)
		if err := link(f.File, draft); err != nil {
			return err
		}
		f.draft = draft
	}
	// Some file systems say here only what they could not write.
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.draft, f.path)
}

// Discard closes and removes the draft. After Commit, and a second time, it
// does nothing.
func (f *File) Discard() error {
	if f.done {
		return nil
	}
	f.done = true
	err := f.Close()
	if errors.Is(err, fs.ErrClosed) {
		err = nil // by a Commit that failed
	}
	if f.draft != "" {
		err = errors.Join(err, os.Remove(f.draft))
	}
	return err
}

// WriteFile is [os.WriteFile] that leaves all of data at path, or what was
// there before.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	return Write(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Write makes a file of what write writes. It is put in its place when write
// returns nil.
func Write(path string, perm fs.FileMode, write func(w io.Writer) error) error {
	f, err := Create(path, perm)
	if err != nil {
		return err
	}
	defer f.Discard() // also when write panics
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}

// maxLinks is how many symbolic links in a row are followed, as on Linux.
const maxLinks = 40

// resolve follows symbolic links from path to where a file is, or would be: the
// last one may point to nothing.
func resolve(path string) (string, error) {
	target := path
	for range maxLinks {
		link, err := os.Readlink(target)
		if err != nil { // not a link, or not there
			return target, nil
		}
		if !filepath.IsAbs(link) {
			// Relative to the real folder: ".." leads out of that.
			dir, err := filepath.EvalSymlinks(filepath.Dir(target))
			if err != nil {
				return "", err
			}
			link = filepath.Join(dir, link)
		}
		target = link
	}
	return "", fmt.Errorf("%s: %w: more than %d symbolic links in a row", path, errs.ErrArgument, maxLinks)
}

// about makes an error of the file system, which names the draft, one of path.
func about(path string, err error) error {
	if err == nil {
		return nil
	}
	if inner := (*fs.PathError)(nil); errors.As(err, &inner) {
		return &fs.PathError{Op: inner.Op, Path: path, Err: inner.Err}
	}
	if inner := (*os.LinkError)(nil); errors.As(err, &inner) {
		return &fs.PathError{Op: inner.Op, Path: path, Err: inner.Err}
	}
	return fmt.Errorf("%s: %w", path, err)
}

// syncDir makes a renaming durable, where folders can be synchronised.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // NTFS keeps a journal of names
	}
	dir, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil // it may be written and not read
	}
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, fs.ErrPermission) {
		err = nil // not on this file system
	}
	return errors.Join(err, dir.Close())
}

func notAFile(path string, info fs.FileInfo) error {
	return fmt.Errorf("%s: %w: it is %s, not a file", path, errs.ErrArgument, kind(info.Mode()))
}

// kind names what is not a file.
func kind(mode fs.FileMode) string {
	switch mode.Type() {
	case fs.ModeDir:
		return "a folder"
	case fs.ModeNamedPipe:
		return "a named pipe"
	case fs.ModeSocket:
		return "a socket"
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		return "a device"
	}
	return mode.Type().String()
}
