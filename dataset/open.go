package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Options configures [Open]. The zero value works.
type Options struct {
	// Image says how the images of a folder are read.
	Image ImageOptions
	// Tensor says which tensors of a .safetensors file are read.
	Tensor TensorOptions
	// CSV says how a file of rows of numbers is read.
	CSV CSVOptions
}

// sniffBytes is how much of a file [Open] looks at.
const sniffBytes = 64 << 10

// Open opens the dataset at path and tells its kind by what is there: a
// folder is an [Images], a file that begins as one an [NPY] or a
// [SafeTensors], a text whose first or second row is all numbers a [CSV].
// Anything else fails with [ErrFormat]. A result that is an [io.Closer] must
// be closed.
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
	head := make([]byte, min(sniffBytes, info.Size()))
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
		return nil, err
	}
	switch head = head[:n]; {
	case bytes.HasPrefix(head, []byte(npyMagic)):
		return OpenNPY(path)
	case tensorsHead(head, info.Size()):
		return OpenSafeTensors(path, opts.Tensor)
	case csvHead(head, int64(n) == info.Size()):
		return OpenCSV(path, opts.CSV)
	}
	return nil, fmt.Errorf("%s: %w: neither a folder of images nor a NumPy or safetensors file nor rows of numbers; %d bytes that begin with %q",
		path, ErrFormat, info.Size(), head[:min(n, 8)])
}

// checkRegular keeps away from pipes and devices, which could block for ever.
func checkRegular(path string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w: not a regular file but %v", path, ErrFormat, info.Mode())
	}
	return nil
}
