package dataset

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Options configures [Open]. The zero value works.
type Options struct {
	// Image says how the images of a folder are read.
	Image ImageOptions
}

// Open opens the dataset at path and tells its kind by what is there: a
// folder is an [ImageFolder], a file that begins as one an [NPY]. Anything
// else fails with [ErrFormat]. A result that is an [io.Closer] must be closed.
func Open(path string, opts Options) (Dataset, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return OpenImageFolder(path, opts.Image)
	}
	if err := checkRegular(path, info); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, len(npyMagic))
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
		return nil, err
	}
	if string(head[:n]) != npyMagic {
		return nil, fmt.Errorf("%s: %w: neither a folder of images nor a NumPy file; %d bytes that begin with %q", path, ErrFormat, info.Size(), head[:n])
	}
	return OpenNPY(path)
}

// checkRegular keeps away from pipes and devices, which could block for ever.
func checkRegular(path string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w: not a regular file but %v", path, ErrFormat, info.Mode())
	}
	return nil
}
