package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/internal/atomicfile"
)

// CreateFile begins a file that is written at the end of a run, so that a run
// whose result could not be written fails at once. FinishFile puts it in its
// place.
func CreateFile(path string) (*atomicfile.File, error) {
	if path == "-" {
		return nil, errors.New("- names no file here; ./- does")
	}
	return atomicfile.Create(path, 0o666)
}

// FinishFile writes a file and puts it in its place.
func FinishFile(f *atomicfile.File, write func(io.Writer) error) error {
	if err := write(f); err != nil {
		return errors.Join(err, f.Discard())
	}
	return f.Commit()
}

// CheckFile fails where a file could not be written.
func CheckFile(path string) error {
	f, err := CreateFile(path)
	if err != nil {
		return err
	}
	return f.Discard()
}

// LineFile is a file of lines. It takes its place when it is complete; a pipe
// or a device is written as it is.
type LineFile struct {
	draft *atomicfile.File // nil for a pipe or a device
	file  *os.File
	*bufio.Writer
}

// CreateLines begins a file of lines, or opens a pipe or a device.
func CreateLines(path string) (*LineFile, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &LineFile{nil, file, bufio.NewWriter(file)}, nil
	}
	draft, err := CreateFile(path)
	if path == "-" {
		return nil, fmt.Errorf("%w, and lines can go to /dev/stdout", err)
	}
	if err != nil {
		return nil, err
	}
	return &LineFile{draft, draft.File, bufio.NewWriter(draft)}, nil
}

// Close puts the file in its place, or leaves there what was, if it is not to
// be kept.
func (l *LineFile) Close(keep bool) error {
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

// SamePath reports whether two paths, if any, are of one file, however they are
// written.
func SamePath(a, b string) bool {
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
