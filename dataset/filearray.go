package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// fileArray is samples back to back in a part of a file. They are read by
// position, not mapped: that is as fast, and a file that shrinks gives an
// error where a mapping would end the process.
type fileArray struct {
	array
	file  *os.File
	start int64 // of sample 0 in the file
}

// openRegular opens a file unless it is a pipe or a device, and returns its
// size.
func openRegular(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if err := checkRegular(path, info); err != nil {
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

// NewReader implements [Dataset]. Readers share the file and none of its
// state.
func (d *fileArray) NewReader() (Reader, error) { return &fileReader{array: d}, nil }

// Close closes the file. Reads fail from then on with [fs.ErrClosed].
func (d *fileArray) Close() error { return d.file.Close() }

type fileReader struct {
	array  *fileArray
	closed bool
}

// Read implements [Reader].
func (r *fileReader) Read(_ context.Context, v Visit, dst []byte) error {
	d := r.array
	if err := checkRead(d, v.Index, dst, d.sample); err != nil {
		return err
	}
	if r.closed {
		return fmt.Errorf("%s: %w", d.Name(v.Index), fs.ErrClosed)
	}
	start := v.Timing.start()
	if err := readFull(d.file, dst, d.start+int64(v.Index)*int64(d.sample)); err != nil {
		return fmt.Errorf("%s: %w", d.Name(v.Index), err)
	}
	v.Timing.read(start)
	return nil
}

// readFull fills dst from a position that was inside the file when it was
// opened.
func readFull(r io.ReaderAt, dst []byte, at int64) error {
	n, err := r.ReadAt(dst, at)
	if n == len(dst) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the file has shrunk: %d of %d bytes", ErrDamaged, n, len(dst))
	}
	return err
}

// Close implements [Reader].
func (r *fileReader) Close() error {
	r.closed = true
	return nil
}
