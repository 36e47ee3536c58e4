package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/loader"
)

// loadState reads the state that a run is to go on from.
func (f *feedFlags) loadState(o *loader.Options) error {
	if f.resume == "" {
		return nil
	}
	state, err := loader.ReadState(f.resume)
	if err != nil {
		return err
	}
	o.Resume = &state
	return nil
}

// checkPlaces fails where what is asked for could not be written, or would be
// over what is read, before the run and not behind it.
func (f *feedFlags) checkPlaces(cmd *cobra.Command, read []string) error {
	err := cmp.Or(notOver(cmd, read, "digests", f.digests), notOver(cmd, read, "save-state", f.saveState))
	if err != nil {
		return err
	}
	if samePath(f.digests, f.saveState) || samePath(f.digests, f.resume) {
		return badUsage(cmd, "--digests and the state are both to be %s", f.digests)
	}
	if f.saveState == "" {
		return nil
	}
	if info, err := os.Stat(f.saveState); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("there is no place for the state: %s is no regular file", f.saveState)
	}
	file, err := createBeside(f.saveState)
	if err != nil {
		return fmt.Errorf("there is no place for the state: %w", err)
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// notOver fails where the file that a flag names is among what is read.
func notOver(cmd *cobra.Command, read []string, flag, path string) error {
	for _, data := range read {
		if samePath(data, path) {
			return badUsage(cmd, "--%s would be written over the data in %s", flag, data)
		}
	}
	return nil
}

// samePath reports whether two paths, if any, are of one file, however they are
// written.
func samePath(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	first, err := os.Stat(a)
	second, other := os.Stat(b)
	if err == nil && other == nil {
		return os.SameFile(first, second)
	}
	a, err = filepath.Abs(a)
	b, other = filepath.Abs(b)
	return err == nil && other == nil && a == b
}

// createBeside creates a file of another name in the folder of path.
func createBeside(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
}

// keepState saves where a run is, also where it was cut short, and says how to
// go on.
func (f *feedFlags) keepState(line *progress, state loader.State) error {
	if f.saveState == "" {
		return nil
	}
	if err := state.WriteFile(f.saveState); err != nil {
		return fmt.Errorf("the state could not be saved: %w", err)
	}
	line.message("Saved: next is batch %d of epoch %d; go on with --resume %s", state.Batch, state.Epoch, f.saveState)
	return nil
}

// lineFile is a file of lines that is written beside its place and renamed, so
// that what is there is never half of it. A pipe or a device is written as it
// is.
type lineFile struct {
	path string // "" where nothing is renamed
	file *os.File
	*bufio.Writer
}

func createLines(path string) (*lineFile, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &lineFile{"", file, bufio.NewWriter(file)}, nil
	}
	file, err := createBeside(path)
	if err != nil {
		return nil, err
	}
	return &lineFile{path, file, bufio.NewWriter(file)}, nil
}

// flush writes what is buffered; there may be no file at all.
func (l *lineFile) flush() error {
	if l == nil {
		return nil
	}
	return l.Flush()
}

// close puts the file in its place, or leaves there what was, if it is not to
// be kept.
func (l *lineFile) close(keep bool) error {
	if l.path == "" {
		return errors.Join(l.Flush(), l.file.Close())
	}
	if !keep {
		return errors.Join(l.file.Close(), os.Remove(l.file.Name()))
	}
	err := errors.Join(l.Flush(), l.file.Chmod(0o644), l.file.Close())
	if err == nil {
		err = os.Rename(l.file.Name(), l.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(l.file.Name()))
	}
	return nil
}
