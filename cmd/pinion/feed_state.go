package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/loader"
)

// resume reads the state that a run is to go on from.
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
// that what is there is never half of it.
type lineFile struct {
	path string
	file *os.File
	*bufio.Writer
}

func createLines(path string) (*lineFile, error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return nil, err
	}
	return &lineFile{path, file, bufio.NewWriter(file)}, nil
}

// Close puts the file in its place.
func (l *lineFile) Close() error {
	err := errors.Join(l.Flush(), l.file.Chmod(0o644), l.file.Close())
	if err == nil {
		err = os.Rename(l.file.Name(), l.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(l.file.Name()))
	}
	return nil
}

var _ io.WriteCloser = (*lineFile)(nil)
