package main

import (
	"bufio"
	"errors"
	"io"
	"os"

	"github.com/pinion-gpu/pinion/internal/atomicfile"
)

// createFile begins a file that is written at the end of a run, so that a run
// whose result could not be written fails at once. finishFile puts it in its
// place.
func createFile(path string) (*atomicfile.File, error) { return atomicfile.Create(path, 0o666) }

// finishFile writes a file and puts it in its place.
func finishFile(f *atomicfile.File, write func(io.Writer) error) error {
	if err := write(f); err != nil {
		return errors.Join(err, f.Discard())
	}
	return f.Commit()
}

// checkFile fails where a file could not be written.
func checkFile(path string) error {
	f, err := createFile(path)
	if err != nil {
		return err
	}
	return f.Discard()
}

// lineFile is a file of lines. It takes its place when it is complete; a pipe
// or a device is written as it is.
type lineFile struct {
	draft *atomicfile.File // nil for a pipe or a device
	file  *os.File
	*bufio.Writer
}

func createLines(path string) (*lineFile, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &lineFile{nil, file, bufio.NewWriter(file)}, nil
	}
	draft, err := createFile(path)
	if err != nil {
		return nil, err
	}
	return &lineFile{draft, draft.File, bufio.NewWriter(draft)}, nil
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
	switch {
	case l.draft == nil:
		return errors.Join(l.Flush(), l.file.Close())
	case !keep:
		return l.draft.Discard()
	}
	if err := l.Flush(); err != nil {
		return errors.Join(err, l.draft.Discard())
	}
	return l.draft.Commit()
}
