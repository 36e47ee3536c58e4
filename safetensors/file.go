package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// File is an open .safetensors file. Its methods are safe for concurrent use.
type File struct {
	*Header
	path string
	file *os.File
	size int64
}

// OpenFile opens a file and checks its header. It fails as [ReadHeader] does,
// and with [ErrFormat] for what is no regular file.
func OpenFile(path string) (*File, error) {
	// A pipe would block, so the kind is looked at first.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: not a regular file but %v", path, ErrFormat, info.Mode())
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, file: file}
	if err := f.readHeader(); err != nil {
		if named := (*fs.PathError)(nil); !errors.As(err, &named) {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

func (f *File) readHeader() error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	f.size = info.Size()
	if f.Header, err = ReadHeader(f.file, f.size); err != nil {
		return err
	}
	for i := range f.Tensors {
		f.Tensors[i].File = f
	}
	return nil
}

// Path is the path that the file was opened by.
func (f *File) Path() string { return f.path }

// Size is the length of the file when it was opened.
func (f *File) Size() int64 { return f.size }

// OS is the open file, to be read at offsets until Close.
func (f *File) OS() *os.File { return f.file }

// Close closes the file. A second Close does nothing.
func (f *File) Close() error {
	if err := f.file.Close(); !errors.Is(err, fs.ErrClosed) {
		return err
	}
	return nil
}
