package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkreport"
	"github.com/pinion-gpu/pinion/internal/cpuname"
)

// writeReport writes the run as an HTML page.
func (r *linkRun) writeReport(w io.Writer) error {
	return linkreport.Render(w, &linkreport.Report{
		MeasuredAt: r.MeasuredAt, Commit: r.Commit, Platform: r.Platform, CPU: cpuname.Name(), CPUs: r.CPUs,
		Device: r.info, MaxPayload: linkbench.MaxPayload(r.info.PCIBusID), Opened: r.opened, Bench: *r.Report,
	})
}

// pendingFile is a file that is there as a whole or not at all: it is written
// beside its place and moved there when it is complete.
type pendingFile struct {
	temp *os.File
	path string
}

// newPendingFile fails at once where the file could not be written in the end.
func newPendingFile(path string) (*pendingFile, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not an ordinary file", path)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		var inner *os.PathError
		if errors.As(err, &inner) {
			err = inner.Err // it names the temporary file
		}
		return nil, fmt.Errorf("%s cannot be written: %w", path, err)
	}
	return &pendingFile{temp, path}, nil
}

// commit writes the file and puts it in its place.
func (f *pendingFile) commit(write func(io.Writer) error) error {
	err := write(f.temp)
	if err == nil {
		err = f.temp.Chmod(0o644) // CreateTemp keeps it to the user, but a report is to be shared
	}
	if err == nil {
		err = f.temp.Close()
	}
	if err == nil {
		err = os.Rename(f.temp.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, f.discard())
	}
	return nil
}

// discard takes back what was written.
func (f *pendingFile) discard() error {
	f.temp.Close() // it may be closed already
	return os.Remove(f.temp.Name())
}
