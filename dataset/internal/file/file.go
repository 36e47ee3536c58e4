// Package file reads files that somebody else may change, or that are no files
// at all.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// Errors of package dataset.
var (
	errFormat   = errs.ErrFormat
	errTooLarge = errs.ErrTooLarge
	errDamaged  = errs.ErrDamaged
)

// DefaultMax is the largest file that is read, unless options say another size.
const DefaultMax = 256 << 20

// CheckRegular keeps away from pipes and devices, which could block for ever.
func CheckRegular(path string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w: %s, not a regular file", path, errFormat, kind(info.Mode()))
	}
	return nil
}

// kind says in words what is no regular file.
func kind(mode os.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&os.ModeNamedPipe != 0:
		return "a pipe"
	case mode&os.ModeSocket != 0:
		return "a socket"
	case mode&os.ModeDevice != 0:
		return "a device"
	}
	return fmt.Sprintf("something of mode %v", mode)
}

// OpenRegular opens a file unless it is a pipe or a device, and returns its size.
func OpenRegular(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if err := CheckRegular(path, info); err != nil {
		return nil, 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// ReadFull fills dst from a position that was inside the file when it was
// opened.
func ReadFull(r io.ReaderAt, dst []byte, at int64) error {
	n, err := r.ReadAt(dst, at)
	if n == len(dst) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the file has shrunk: %d of %d bytes", errDamaged, n, len(dst))
	}
	return err
}

// Read reads a whole file, in buf if that is large enough.
func Read(path string, buf []byte, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, openFlags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := CheckRegular(path, info); err != nil {
		return nil, err
	}
	size := info.Size()
	if size > limit {
		return nil, fmt.Errorf("%s: %w: a file of %d bytes, the limit is %d", path, errTooLarge, size, limit)
	}
	// One byte more shows whether the file grows.
	need := int(size) + 1
	if cap(buf) < need {
		buf = make([]byte, need+need/4)
	}
	n, err := io.ReadAtLeast(f, buf[:need], int(size)) // one system call
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	if n != int(size) {
		return nil, fmt.Errorf("%s: %w: it had %d bytes and changed while it was read", path, errDamaged, size)
	}
	return buf[:n], nil
}

// ReadInto fills dst with a file of exactly that size.
func ReadInto(path string, dst []byte) error {
	f, size, err := OpenRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if size != int64(len(dst)) {
		return fmt.Errorf("%s: %w: the file changed its size from %d bytes to %d", path, errDamaged, len(dst), size)
	}
	if err := ReadFull(f, dst, 0); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// KeepBytes is the largest buffer that is used again.
const KeepBytes = 16 << 20

// Buffer holds the content of the last file of a reader.
type Buffer struct{ bytes []byte }

// Load reads a file into the buffer, or into new memory that it keeps.
func (b *Buffer) Load(read func(buf []byte) ([]byte, error)) ([]byte, error) {
	if cap(b.bytes) > KeepBytes {
		b.bytes = nil
	}
	content, err := read(b.bytes[:0])
	if err != nil {
		return nil, err
	}
	b.bytes = content
	return content, nil
}

// ContextReader fails once its context has ended.
type ContextReader struct {
	Ctx context.Context
	io.Reader
}

// Read implements [io.Reader].
func (r ContextReader) Read(b []byte) (int, error) {
	if err := r.Ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}
